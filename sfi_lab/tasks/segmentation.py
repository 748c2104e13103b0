"""Chinese words, for metrics that count words: jieba's segmentation, which LongBench's published scores use."""

from __future__ import annotations

import importlib.util
import string
import unicodedata
from collections.abc import Iterable

from sfi_lab.errors import SfiError

INSTALL = "pip install '.[datasets]' in the project's folder"  # on no package index


def need_segmentation(what: str) -> None:
    """Raises SfiError if Chinese words can't be told apart here: called before a run, not after it."""
    if importlib.util.find_spec("jieba") is None:
        raise SfiError(f"{what} counts Chinese words, which needs jieba: {INSTALL}")


def chinese_words(text: str) -> list[str]:
    """Words of a Chinese text in order, punctuation and white space among them. Raises SfiError without jieba."""
    need_segmentation("this score")
    import jieba

    jieba.setLogLevel("WARNING")  # it reports the loading of its dictionary else
    return jieba.lcut(text)


def without_punctuation(words: Iterable[str]) -> list[str]:
    """The words in lower case, without punctuation and white space; those left empty are dropped."""
    kept = ("".join(c for c in word.lower() if not (c.isspace() or _is_mark(c))) for word in words)
    return [word for word in kept if word]


def _is_mark(character: str) -> bool:
    """ASCII punctuation, and what Unicode calls punctuation or a full-width symbol."""
    return (
        character in string.punctuation
        or unicodedata.category(character).startswith("P")
        or ("\uff00" <= character <= "\uffef" and unicodedata.category(character).startswith("S"))
    )
