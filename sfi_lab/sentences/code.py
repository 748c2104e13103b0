"""Code inside text: backticks, and lines or words that look like code."""

import re

FENCE = 3
_CODE_LINE = re.compile(
    r"""
      \w\([^()]*$                                              # an open call: print("Hello
    | ==|!=|\+=|-=|:=|=>|->|::|&&|\|\|                         # operators no prose has
    | ^\s*[\w.\[\]"']+\s*=\s                                   # an assignment
    | ^\s*(?:>>>|\$|\#include|//|@\w+$|\}|\{)                  # prompts, directives, comments, braces
    | ^\s*(?:def|class|fn|func|function|struct|enum|interface)\s+\w+\s*[({:<]
    | ^\s*(?:import|from)\s+[a-z_][\w.]*(?:\s+(?:import|as)\b.*)?$
    | ^\s*(?:return|raise|yield|assert|await|if|for|while)\b\s*\(?[^\s]*[_(\[]
    """,
    re.VERBOSE,
)
_CODE_WORD = re.compile(r"://|@|^www|\w\(|\w_|[^\W\d]\.[^\W\d]|^[#$&\\/~-]\S*\w|^[vV]\d")


def looks_like_code(line: str) -> bool:
    """Whether a line, up to where it has come, reads like source code rather than prose."""
    return _CODE_LINE.search(line) is not None


def is_code_word(word: str) -> bool:
    """Whether a word is a call, an identifier with `_`, a dotted name, an address or a path."""
    return _CODE_WORD.search(word) is not None


class CodeSpans:
    """Follows backticks one character at a time: inline spans (closed by as many, or by the line's end) and fences."""

    def __init__(self) -> None:
        self._ticks = 0  # backticks of the run being read
        self._run_opens_line = False
        self._inline = 0  # width of the open inline span
        self._fenced = False

    def tick(self, line: str) -> None:
        """Read one backtick; `line` is what came before it on its line."""
        if self._ticks == 0:
            self._run_opens_line = not line.strip(" \t>")
        self._ticks += 1

    def other(self) -> None:
        """Read any other character: the run of backticks before it, if any, is complete."""
        if self._ticks == 0:
            return
        ticks, self._ticks = self._ticks, 0
        if ticks >= FENCE and self._run_opens_line:
            self._fenced = not self._fenced
        elif not self._fenced:
            self._inline = ticks if self._inline == 0 else 0 if self._inline == ticks else self._inline

    def newline(self) -> None:
        """Read a newline: inline spans don't go on behind it."""
        self.other()
        self._inline = 0

    @property
    def inside(self) -> bool:
        """Whether the character after those read is code."""
        return self._fenced or self._inline > 0
