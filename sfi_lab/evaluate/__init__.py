"""The harness that compares methods on tasks at equal budgets: paired, greedy, resumable, with intervals.

| name | what |
|---|---|
| `evaluate(lab, methods, tasks, out)` | runs it and writes samples.parquet, summary.parquet and report.md |
| `republish(out)` | the tables of all that lies in a folder, without a model |
| `summarise(samples)` | means with paired bootstrap intervals from per-sample rows |
| `ROWS`, `SUMMARY` | the columns of both tables |
"""

from sfi_lab.evaluate.harness import evaluate
from sfi_lab.evaluate.publish import republish
from sfi_lab.evaluate.sample import ROWS
from sfi_lab.evaluate.summary import SUMMARY, summarise

__all__ = ["ROWS", "SUMMARY", "evaluate", "republish", "summarise"]
