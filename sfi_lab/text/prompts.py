"""The project's prompts: files in `data/prompts`, one prompt each, with a line for the kind and one for the language."""

import os
from dataclasses import dataclass
from pathlib import Path

from sfi_lab.errors import SfiError

ENVIRONMENT_NAME = "SFI_LAB_DATA"
_FENCE = "---"
_FIELDS = ("kind", "language")


@dataclass(frozen=True)
class Prompt:
    """One prompt.

    Attributes
    ----------
    name : str
        File name without its ending.
    text : str
        The whole text, instruction last, without trailing white space.
    kind : str
        What sort of text it is: story, dialogue, code review, ...
    language : str
        ISO 639-1 code of the language it is written in.
    """

    name: str
    text: str
    kind: str
    language: str


def prompt_names() -> tuple[str, ...]:
    """Names of all prompts, sorted.

    Raises
    ------
    SfiError
        If the folder of the prompts isn't there.
    """
    return tuple(sorted(_files()))


def prompt(name: str) -> Prompt:
    """Read one prompt.

    Raises
    ------
    SfiError
        For an unknown name, naming those there are; for a file without its two header lines; without the folder.
    """
    files = _files()
    if name not in files:
        raise SfiError(f"there is no prompt {name!r}; there are: {', '.join(sorted(files))}")
    return _parsed(name, files[name].read_text(encoding="utf-8"))


def prompt_text(source: str) -> str:
    """The text of a prompt file: a file of this project's form loses its header and outer white space, as in `prompt`;
    any other text stays as it is, one that begins with another header or a rule of dashes too.
    """
    header, text = _split(source)
    return source if header is None else text


def prompts_folder() -> Path:
    """The folder of the prompts: `prompts` in $SFI_LAB_DATA if that is set, else `data/prompts` of the repository.

    `data` is no part of the wheel, so a plain install needs the variable; an editable one finds the repository.

    Raises
    ------
    SfiError
        If the folder isn't there.
    """
    override = os.environ.get(ENVIRONMENT_NAME)
    data = Path(override).expanduser() if override else Path(__file__).resolve().parents[2] / "data"
    folder = data / "prompts"
    if folder.is_dir():
        return folder
    if override:
        raise SfiError(f"{ENVIRONMENT_NAME} is {override!r}, but there is no folder {folder}")
    raise SfiError(
        f"the prompts are kept in the repository and not in the installed package (looked for {folder}); "
        f"install with 'pip install -e .' from a checkout, or set {ENVIRONMENT_NAME} to a checkout's data folder"
    )


def _files() -> dict[str, Path]:
    return {path.stem: path for path in prompts_folder().glob("*.md")}


def _parsed(name: str, source: str) -> Prompt:
    header, text = _split(source)
    if header is None:
        raise SfiError(f"prompt {name} must begin with '---', a line 'kind: ...', a line 'language: ...' and '---'")
    return Prompt(name, text, header["kind"], header["language"])


def _split(source: str) -> tuple[dict[str, str] | None, str]:
    """Header and text of a prompt file; None and the source where it has no such header."""
    lines = source.split("\n")
    end = lines.index(_FENCE, 1) if lines[0] == _FENCE and _FENCE in lines[1:] else 0
    fields = [line.partition(": ") for line in lines[1:end]]
    header = {name: value.strip() for name, _, value in fields}
    if set(header) != set(_FIELDS) or len(fields) != len(_FIELDS) or not all(header.values()):
        return None, source
    return header, "\n".join(lines[end + 1 :]).strip()
