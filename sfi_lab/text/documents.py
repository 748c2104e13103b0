"""Long plain English text without a download: the language reference that ships as `pydoc_data.topics`.

The text is the same for everyone on one Python version and differs between versions, so a measurement made on it names
the version (`platform.python_version()`).
"""

import platform
from collections.abc import Iterable
from importlib import import_module

from sfi_lab.errors import SfiError
from sfi_lab.text.cleaning import plain_paragraphs

# Read in this order a document begins with prose, not with tables of operators; topics not named here follow by name.
READING_ORDER = (
    *("execmodel", "import", "objects", "types", "customization", "attribute-access", "compound", "exceptions"),
    *("naming", "comparisons", "assignment", "function", "calls", "with", "try", "raise", "yield"),
    *("typesseq", "string-methods", "formatstrings", "debugger"),
)


def pydoc_topics() -> dict[str, str]:
    """All topics of this Python's documentation, cleaned: reflowed paragraphs, no grammar, code, tables or footnotes.

    Returns
    -------
    dict of str to str
        Text by topic name, sorted by name; paragraphs are separated by a blank line. Topics without prose are left out.

    Raises
    ------
    SfiError
        If this Python was built without its documentation topics.
    """
    cleaned = {name: "\n\n".join(plain_paragraphs(raw)) for name, raw in sorted(_raw_topics().items())}
    return {name: text for name, text in cleaned.items() if text}


def pydoc_document(n_chars: int | None = None, topics: Iterable[str] | None = None) -> str:
    """One long document of topics; a paragraph that several topics share is kept once.

    Parameters
    ----------
    n_chars : int, optional
        Length limit in characters. The text stops at the last sentence end within it.
    topics : iterable of str, optional
        Topic names in the order wanted; all of them where not given.

    Returns
    -------
    str

    Raises
    ------
    SfiError
        For an unknown topic, for a limit that is not positive, too small for one sentence, or longer than the text.
    """
    available = pydoc_topics()
    names = _all_names(available) if topics is None else list(topics)
    unknown = [name for name in names if name not in available]
    if unknown:
        raise SfiError(f"unknown topics {', '.join(unknown)}; this Python has: {', '.join(available)}")
    paragraphs = (paragraph for name in names for paragraph in available[name].split("\n\n"))
    text = "\n\n".join(dict.fromkeys(paragraphs))
    return text if n_chars is None else _shortened(text, n_chars)


def _raw_topics() -> dict[str, str]:
    try:
        return import_module("pydoc_data.topics").topics
    except ImportError:
        raise SfiError(f"Python {platform.python_version()} here was built without pydoc_data.topics") from None


def _all_names(available: Iterable[str]) -> list[str]:
    available = list(available)
    first = [name for name in READING_ORDER if name in available]
    return first + [name for name in available if name not in first]


def _shortened(text: str, n_chars: int) -> str:
    if not 0 < n_chars <= len(text):
        raise SfiError(f"n_chars must be from 1 to {len(text)} for these topics on this Python, got {n_chars}")
    if n_chars == len(text):
        return text
    head = text[: n_chars + 1]  # one more, to see that the stop is followed by white space
    cut = max(head.rfind(stop) for stop in (". ", ".\n", ".) "))
    if cut < 0:
        raise SfiError(f"n_chars = {n_chars} is too short for the first sentence of these topics")
    return head[: cut + 2].rstrip()
