"""`sfi-lab generate`: decodes a prompt file. Standard output carries the text or the JSON object and nothing else."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sfi_lab.cli.options import add_model, add_settings, settings_from
from sfi_lab.errors import SfiError
from sfi_lab.text import prompt_text

if TYPE_CHECKING:
    from sfi_lab.decoder.result import Result


def add(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "generate", help="decode a prompt", description="Decodes a prompt with slow and fast steps."
    )
    parser.add_argument(
        "--prompt-file",
        required=True,
        metavar="FILE",
        help="UTF-8 text; - reads standard input; of a project prompt's file the text without its header",
    )
    parser.add_argument(
        "--chat", action="store_true", help="the prompt is a user's message in the model's chat template"
    )
    add_model(parser)
    add_settings(parser)
    parser.add_argument(
        "--method",
        default="sfi",
        metavar="NAME[:PARAMETER=VALUE…]",
        help="how to decode: sfi, dense, streaming, snapkv, quest, … (default: %(default)s); its budget is sink + recent + K",
    )
    parser.add_argument(
        "--max-new-tokens", type=int, default=256, metavar="N", help="at most this many tokens (default: %(default)s)"
    )
    parser.add_argument(
        "--record",
        default=None,
        help="off, support, audit, support+qk or audit+qk (default: off; support if --trace is given)",
    )
    parser.add_argument("--trace", metavar="DIR", help="folder of the recording")
    parser.add_argument("--record-layers", metavar="L,L,…", help="layers to record (default: all with full attention)")
    parser.add_argument(
        "--qk-layers", metavar="L,L,…", help="layers whose queries and keys are kept with +qk (default: those recorded)"
    )
    parser.add_argument(
        "--record-top",
        type=int,
        default=64,
        metavar="N",
        help="positions listed a step, layer and head (default: %(default)s)",
    )
    parser.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="stop string, left out of the text (a line break counts once something was said); may be given again",
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="draw tokens at this temperature (default: the likeliest token)"
    )
    parser.add_argument("--top-p", type=float, metavar="P", help="nucleus share, with --temperature")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    # everything that can be wrong without the model is said before the model is loaded
    settings = settings_from(arguments)
    text = _read(arguments.prompt_file)
    options = _options(arguments)
    from sfi_lab.methods import parse_method

    method = parse_method(arguments.method)
    method.settings(settings)  # refuses a budget that doesn't fit
    from sfi_lab.lab import load  # heavy: torch and transformers

    lab = load(arguments.model, arguments.device, arguments.dtype)
    prompt = [{"role": "user", "content": text}] if arguments.chat else text
    result = lab.generate(prompt, settings, arguments.max_new_tokens, method, **options)
    if arguments.json:
        print(json.dumps(result.to_dict(), ensure_ascii=False))
    else:
        print(result.text)
        print(_facts(result), file=sys.stderr)
    if never_selected := _never_selected(result, method.budget):
        print(never_selected, file=sys.stderr)
    return 0


def _facts(result: Result) -> str:
    """The run in one line."""
    share, speed = result.keys_read_share, result.tokens_per_second
    facts = [
        f"{_counted(len(result.steps), 'token')} after {result.prompt_tokens}",
        f"{_counted(result.slow_steps, 'slow step')} {result.reasons or ''}".strip(),
        f"{share:.1%} of the keys read" if share is not None else "",
        f"{result.bytes_kept / 1e6:.1f} MB of keys and values kept",
        f"{speed:.1f} tokens/s" if speed else "",
        f"ended by {result.stop_reason}",
        f"trace in {result.trace_path}" if result.trace_path else "",
    ]
    return "; ".join(fact for fact in facts if fact)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _never_selected(result: Result, budget: int | None) -> str:
    """A sentence where every step read everything because sink, recent and K hold the whole text, else "".

    budget: the method's own, which takes the place of --k.
    """
    s, steps = result.settings, len(result.steps) - 1
    always = s.sink + s.recent
    if s.is_dense or steps < 1 or result.prompt_tokens + steps > always + s.k:
        return ""
    why = (
        f"nothing was selected and every step read all keys: the prompt's {result.prompt_tokens} tokens are fewer than "
        f"sink {s.sink} + K {s.k} + recent {s.recent}"
    )
    largest = result.prompt_tokens - always  # with this K the first decode step has a position too many
    if largest < 1:
        return f"{why}; a longer prompt or a smaller --recent makes the run sparse"
    sensible = max(1, largest // 4)
    if budget is not None:
        return f"{why}; a budget of {always + largest} or less makes the run sparse, e.g. {always + sensible}"
    return f"{why}; --k {largest} or less makes the run sparse, e.g. --k {sensible}"


def _read(name: str) -> str:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SfiError(f"prompt file {name} does not exist") from None
    except UnicodeDecodeError:
        raise SfiError(f"prompt file {name} is not UTF-8 text") from None
    except OSError as error:
        raise SfiError(f"prompt file {name} can't be read: {error.strerror}") from None
    text = prompt_text(text)  # a file of data/prompts decodes as Python's prompt(name).text does
    if not text.strip():
        raise SfiError(f"prompt file {name} is empty; give text to continue")
    return text


def _options(arguments: argparse.Namespace) -> dict:
    record = arguments.record or ("support" if arguments.trace else "off")
    if arguments.qk_layers is not None and not record.endswith("+qk"):
        raise SfiError(f"--qk-layers needs --record support+qk or audit+qk; this run's record is {record}")
    for name, value in (("--trace", arguments.trace), ("--record-layers", arguments.record_layers)):
        if record == "off" and value is not None:
            raise SfiError(f"{name} needs a recording, e.g. --record support; this run's record is off")
    options = {
        "record": record,
        "trace": arguments.trace,
        "record_layers": _layers("--record-layers", arguments.record_layers),
        "qk_layers": _layers("--qk-layers", arguments.qk_layers),
        "record_top": arguments.record_top,
        "stop": arguments.stop,
    }
    if arguments.temperature is not None:
        options |= {"do_sample": True, "temperature": arguments.temperature}
        if arguments.top_p is not None:
            options["top_p"] = arguments.top_p
    elif arguments.top_p is not None:
        raise SfiError("--top-p only means something together with --temperature")
    return options


def _layers(name: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise SfiError(f"{name} takes layer numbers with commas between, e.g. 3,15,24; got {text!r}") from None
