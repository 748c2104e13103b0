"""The methods SFI is compared with, one small class each behind one interface (`Method`, and `Rule` for those with a rule of
their own: which positions a step may read, per layer and KV head, and when that changes).

| name | method | source |
|---|---|---|
| `dense` | every step reads everything | arXiv 1706.03762 |
| `sfi`, `sfi_pinned`, `sfi_rectified` | Slow-Fast Inference; with a pinned window; with K/V of fast steps recomputed | arXiv 2603.12038 |
| `interval`, `drift` | a Top-K reused for a fixed number of steps; until the queries drift | arXiv 2502.14866, 2411.02886 |
| `streaming` | sink + recent | arXiv 2309.17453 |
| `snapkv`, `pyramidkv` | the prompt's end votes once; with more room in lower layers | arXiv 2404.14469, 2406.02069 |
| `tova` | what the newest query attended to least is dropped | arXiv 2401.06104 |
| `h2o` | most attention gathered so far + recent | arXiv 2306.14048 |
| `knorm` | the smallest keys of the prompt | arXiv 2406.11430 |
| `quest` | at every step the pages whose keys could match best | arXiv 2406.10774 |
| `oracle` | at every step the Top-K of its own dense attention: the most that K positions can hold | |

Used as `lab.generate(prompt, settings, method="snapkv:window=16")`, `sfi-lab generate --method …`, in the workbench's
"Decode again", and by `sfi-lab evaluate --methods …`. Add one: a file with a frozen dataclass derived from `Method`, and a
line in `table.py`.
"""

from sfi_lab.methods.method import Method, budget_of, parameters
from sfi_lab.methods.rule import KeepingRule, PromptLayer, Rule
from sfi_lab.methods.table import METHODS, parse_method

__all__ = ["METHODS", "KeepingRule", "Method", "PromptLayer", "Rule", "budget_of", "parameters", "parse_method"]
