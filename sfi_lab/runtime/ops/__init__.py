"""Operations of a decode step beside attention and selection: tensors in, tensors out, the reference beside Triton.

| function      | files                          | does                                                                       |
|---------------|--------------------------------|----------------------------------------------------------------------------|
| `linear`, `embed` | `linear.py`, `linear_triton.py` | a linear layer of few rows with norm, activation and residual; the embedding |
| `rope_write`  | `rope.py`, `rope_triton.py`       | q/k norm, RoPE, the new K/V rows and key norms into the paged cache        |
| `best_token`  | `pick.py`, `pick_triton.py`       | greedy token and log-probability of every sequence                        |
| `advance`     | `advance.py`, `advance_triton.py` | counters and triggers: the route of every sequence's next step            |

CUDA tensors take Triton, others the reference; `backend="triton" | "reference"` chooses by hand, as in `sfi_kernels`.
"""

from sfi_lab.runtime.ops.advance import advance
from sfi_lab.runtime.ops.linear import Stream, embed, linear
from sfi_lab.runtime.ops.pick import best_token
from sfi_lab.runtime.ops.rope import rope_write

__all__ = ["Stream", "advance", "best_token", "embed", "linear", "rope_write"]
