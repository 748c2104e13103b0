"""The decode kernels of the workbench: a folder an operation, `reference.py` beside `triton.py`.

| function        | folder      | does                                                                                |
|-----------------|-------------|-------------------------------------------------------------------------------------|
| `plan_step`     | `plan/`     | the work list of one decode step, from lengths and routes on the device             |
| `dense_decode`  | `dense/`    | attention over all pages; on request the candidates' logits from the same pass      |
| `sparse_decode` | `sparse/`   | packed memory + recent window, or all pages, per sequence, in one launch            |
| `select_scores` | `selector/` | evidence, prior, λ, fusion, soft-NMS, cross-head exclusivity -> z_adj               |
| `top_k`         | `topk/`     | the K best candidates of a KV head, ascending positions, lower position wins ties   |
| `pack_memory`   | `pack/`     | sink and selected K/V from the pages into one contiguous buffer                     |
| `write_cache`   | `cache/`    | a step's new K/V into the pages, key norms beside them                              |

Tensors only: no models, traces or settings. CUDA tensors take Triton, everything else the reference; with
`TRITON_INTERPRET=1` (set before the first kernel is imported) CPU tensors run the Triton code in its interpreter.
Every function takes `backend="triton" | "reference"` to choose by hand. Nothing here synchronises with the host, so
every call can be captured in a CUDA graph. Shapes: B sequences, H_kv KV heads, G query heads a KV head, D head
dimension, J candidates (positions from `sink` to `recent_start`), K selected, R query rows a KV head.
"""

from .api_decode import dense_decode, plan_step, sparse_decode
from .api_memory import pack_memory, write_cache
from .api_select import select_scores, top_k
from .dispatch import backend_for
from .plan.layout import DecodePlan

__all__ = [
    "DecodePlan",
    "backend_for",
    "dense_decode",
    "pack_memory",
    "plan_step",
    "select_scores",
    "sparse_decode",
    "top_k",
    "write_cache",
]
