"""Where a stop string ends a text."""

from __future__ import annotations


def find_stop(text: str, stop: str, start: int = 0) -> int:
    """Index of a stop string in a text, from `start` on; -1 where it doesn't end it.

    One of blanks only counts once something was said before it: a model that begins its answer with a line break has not
    answered yet, although "\\n" ends the answer. (LongBench's evaluation has the same in mind where its `min_length` keeps
    the first token from ending an answer.)
    """
    said = 0 if stop.strip() else len(text) - len(text.lstrip()) + 1  # of a blank text beyond its end
    return text.find(stop, max(start, said))
