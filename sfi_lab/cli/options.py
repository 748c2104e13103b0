"""Options that several commands share: which model, and every setting by its name."""

from __future__ import annotations

import argparse
from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.settings import FIELDS, Settings

_PRESETS = ("paper", "released", "dense")


def add_model(parser: argparse.ArgumentParser) -> None:
    """--model, --device, --dtype."""
    parser.add_argument(
        "--model",
        default="smollm2-135m",
        help="a known name, Hugging Face id, folder or .gguf file (default: %(default)s)",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default: %(default)s)")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """--preset, --settings and one option a field of `Settings`."""
    group = parser.add_argument_group("settings", "a preset, then a TOML file, then single fields")
    group.add_argument("--preset", choices=_PRESETS, default="paper", help="where to start from (default: %(default)s)")
    group.add_argument("--settings", metavar="TOML", help="a file with fields that replace the preset's")
    for name, field in FIELDS.items():
        metavar = "X[,Y]" if name == "lam_clip" else (field.option or name).upper()
        help_text = f"{field.symbol}: {field.meaning}; {field.allowed}".replace("%", "%%")
        option = "--" + (field.option or name.replace("_", "-"))
        group.add_argument(option, dest=f"set_{name}", metavar=metavar, help=help_text)


def settings_from(arguments: argparse.Namespace) -> Settings:
    """The settings of a command line; SfiError names what is wrong."""
    base = getattr(Settings, arguments.preset)()
    if arguments.settings:
        base = Settings.from_toml(arguments.settings, base)
    fields = {name: getattr(arguments, f"set_{name}") for name in FIELDS}
    return base.with_(**{name: _value(name, text) for name, text in fields.items() if text is not None})


def _value(name: str, text: str) -> Any:
    """A field's value from its text on the command line."""
    if isinstance(getattr(Settings(), name), bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(getattr(Settings(), name), str) and name != "lam":
        return text.replace("\\n", "\n") if name == "enders" else text
    if name == "lam" and text == "auto":
        return text
    numbers = text.split(",") if name == "lam_clip" else [text]
    try:
        values = [int(number) if number.strip().lstrip("-").isdigit() else float(number) for number in numbers]
    except ValueError:
        raise SfiError(f"setting {name} = {text!r} is not allowed; allowed: {FIELDS[name].allowed}") from None
    return tuple(values) if len(values) > 1 else values[0]
