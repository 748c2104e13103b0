"""`sfi-lab evaluate …`: methods compared on tasks at equal budgets; a killed run goes on with the same command."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sfi_lab.cli.options import add_model, add_settings, settings_from
from sfi_lab.errors import SfiError


def add(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "evaluate",
        help="compare methods on tasks at equal budgets",
        description="Decodes the same prompts with every method at every budget, scores them, and writes samples.parquet, "
        "summary.parquet and report.md. The same command goes on after a kill.",
    )
    parser.add_argument(
        "--methods",
        default="dense,sfi,streaming,snapkv",
        metavar="NAME[:PARAMETER=VALUE…],…",
        help="what to compare (default: %(default)s); 'all' is every method",
    )
    parser.add_argument(
        "--tasks",
        default="single_needle,multi_key,fact_qa",
        metavar="NAME,…",
        help="generated tasks, perplexity:FILE, longbench:SUBSET, longbench_v2, gpqa_diamond, mmlu (default: %(default)s)",
    )
    parser.add_argument("--data", metavar="DIR", help="local copies of data sets (default: through the hub)")
    parser.add_argument("--templates", metavar="JSON", help="prompt templates to use instead of this project's")
    parser.add_argument(
        "--budget",
        default="128,256,512",
        metavar="N,…",
        help="positions a step reads per layer and KV head (default: %(default)s)",
    )
    parser.add_argument(
        "--context", default="1024", metavar="N,…", help="lengths of generated prompts in tokens (default: %(default)s)"
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=4,
        metavar="N",
        help="tasks a length; of a data set, in all (0: every one; default: %(default)s)",
    )
    parser.add_argument(
        "--task-seed", type=int, default=0, metavar="N", help="seed of the first task (default: %(default)s)"
    )
    parser.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="instead of each task's own; of given text, how much is scored"
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=16,
        metavar="N",
        help="runs decoded in lock step; halved when memory runs out (default: %(default)s)",
    )
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="folder of the results")
    parser.add_argument(
        "--report-only", action="store_true", help="make the tables of everything finished in DIR; nothing is decoded"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    add_model(parser)
    add_settings(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.report_only:
        from sfi_lab.evaluate import republish

        return _print(republish(arguments.out), arguments.json)
    settings = settings_from(arguments)
    budgets = _numbers("--budget", arguments.budget)
    contexts = _numbers("--context", arguments.context)
    if arguments.set_k is not None:
        raise SfiError("an evaluation sets K itself, from --budget, sink and recent; leave --k out")
    if Path(arguments.out).exists() and not Path(arguments.out).is_dir():
        raise SfiError(f"{arguments.out} is a file; -o takes a folder")
    from sfi_lab.evaluate.arms import make_arms
    from sfi_lab.methods import METHODS
    from sfi_lab.tasks import parse_tasks

    recent = settings.recent if arguments.set_recent is not None else None
    methods = ",".join(METHODS) if arguments.methods == "all" else arguments.methods
    data = Path(arguments.data) if arguments.data else None
    templates = Path(arguments.templates) if arguments.templates else None
    # everything that can be wrong without the model is said before the model is loaded
    make_arms(methods, budgets, settings, recent)
    parse_tasks(arguments.tasks, data, templates)
    from sfi_lab.evaluate import evaluate
    from sfi_lab.lab import load  # heavy: torch and transformers

    lab = load(arguments.model, arguments.device, arguments.dtype)
    found = evaluate(
        lab, methods, arguments.tasks, arguments.out, budgets=budgets, contexts=contexts, samples=arguments.samples,
        seed=arguments.task_seed, settings=settings, recent=recent, max_new_tokens=arguments.max_new_tokens,
        batch=arguments.batch, data=data, templates=templates,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    return _print(found, arguments.json)


def _print(found: dict, as_json: bool) -> int:
    print(json.dumps(found, ensure_ascii=False, allow_nan=False) if as_json else f"{found['out']}/report.md")
    return 0


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise SfiError(f"{option} takes whole numbers with commas between, e.g. 128,256; got {text!r}") from None
