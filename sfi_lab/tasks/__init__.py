"""Tasks that runs are evaluated on: made from a seed, given as text, or read from published data sets. The harness's API:

| name | what |
|---|---|
| `parse_tasks("single_needle,mmlu", data, templates)` | task sources by name; `NAMES` says what each name is |
| `TaskSource.name`, `.generated`, `.tasks(lengths, n, seed, count, tokenizer, limit, max_new_tokens)` | its tasks, which fit into the limit with their answers; generated ones have a length axis |
| `Task`, `Task.fingerprint` | prompt, right answers, depths of the facts, longest answer, and how it is scored; what tells two such apart |
| `score(task, text)` | 0 to 1, for tasks whose `scoring` is "answers", by `METRICS[task.metric]` |
| `generation_scores(ids, logprobs, dense_ids)` | repetition, perplexity and divergence, where it is "generation" |
| `perplexity(logprobs)` | exp of the mean NLL, where it is "perplexity" and `continuation` was teacher-forced |
| `accuracy_by(tasks, scores, label)` | means by difficulty, length, subject, hops, … |
| `make(kind, length, seed)`, `sweep`, `needle_map` | generated tasks without the registry; one, a grid, depth × length |
| `KINDS`, `GENERATED` | the kinds of the recorded studies; all generated kinds |
| `Haystack` | the text that facts are hidden in |

Kinds, after RULER (arXiv 2404.06654): single_needle, multi_key (multi_needle), multi_value, multi_query,
variable_tracking, common_words, fact_qa; also long_story and long_proof (generation) and perplexity:FILE. Data sets:
longbench:SUBSET, longbench_v2, gpqa_diamond, mmlu[:SUBJECT], from a folder of local copies or through the hub (the extra
`datasets`). A kind is a function in `generated` and a line in its `table.py`; a data set is a file in `datasets` and a
line in `registry.py`; a metric is a function and a line in `metrics.py`.
"""

from sfi_lab.tasks.generated.table import GENERATED, KINDS, make, needle_map, sweep
from sfi_lab.tasks.generation import generation_scores, perplexity
from sfi_lab.tasks.haystack import Haystack
from sfi_lab.tasks.metrics import METRICS
from sfi_lab.tasks.registry import NAMES, accuracy_by, parse_tasks
from sfi_lab.tasks.source import TaskSource
from sfi_lab.tasks.task import Task, score

__all__ = [
    "GENERATED",
    "KINDS",
    "METRICS",
    "NAMES",
    "Haystack",
    "Task",
    "TaskSource",
    "accuracy_by",
    "generation_scores",
    "make",
    "needle_map",
    "parse_tasks",
    "perplexity",
    "score",
    "sweep",
]
