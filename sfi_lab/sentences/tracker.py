"""The online rule: one token at a time, which sentence it belongs to and whether it ends or starts one."""

import codecs
import re
from collections.abc import Iterable

from sfi_lab.errors import SfiError
from sfi_lab.sentences.characters import (
    ALWAYS_CLOSE,
    CLOSERS,
    EMPHASIS,
    NO_BREAK_SPACES,
    ender_set,
    spellings,
)
from sfi_lab.sentences.code import CodeSpans
from sfi_lab.sentences.events import SentenceEvent
from sfi_lab.sentences.rules import BLANK_LINE, LINE, NO_GAP, SPACE, Candidate, Kind, candidate
from sfi_lab.sentences.table import TokenTable

LINE_MEMORY = 256  # characters of a line that the rules look back on
HEAD_MEMORY = 16  # characters of a sentence that tell a list number
# First bytes of UTF-8 characters that are letters or emoji whatever follows: Han, most of Hangul, beyond the BMP.
_VISIBLE_LEADS = frozenset([*range(0xE4, 0xEE), 0xF0])


class SentenceTracker:
    """Sentences of a token stream, online and context aware.

    Parameters
    ----------
    table : TokenTable
        The vocabulary as text.
    enders : str
        One character an ender, e.g. ``".?!;\\n"``; other forms (``。``, ``…``) count as their ASCII form.

    Notes
    -----
    Push the prompt first: a list number or a code fence is known by what stands before it. Closing quotes, brackets,
    white space and newlines belong to the sentence before. A special token belongs to the sentence before it, ends it,
    and what follows is a new one. Code in backticks ends no sentence; a newline there does where it is an ender.
    `rules.py` says what can't be known.
    """

    def __init__(self, table: TokenTable, enders: str) -> None:
        self._table = table
        self._enders = ender_set(enders)
        self._spellings = spellings(self._enders)
        marks = "".join(sorted(self._spellings | {"\n", "`"}))
        self._has_mark = re.compile(f"[{re.escape(marks)}]").search
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._code = CodeSpans()
        self._line = ""
        self._head = ""  # the sentence's first characters
        self._sentence = 0
        self._at_text_start = True
        self._has_text = False  # the sentence has a visible character
        self._ended = False  # its end has been reported
        self._pending: Candidate | None = None
        self._started = False  # this token starts a sentence

    @property
    def sentence(self) -> int:
        """Index of the sentence of the last token."""
        return self._sentence

    def push(self, token_id: int) -> SentenceEvent:
        """Take the next token of the stream.

        Raises
        ------
        SfiError
            If the id is negative. Ids beyond the table (padding of the logits) have no text.
        """
        text = self._decode(token_id)
        self._started = False
        if token_id in self._table.special:
            ends = self._special()
        else:
            self._read(text)
            ends = self._reports_end()
        return SentenceEvent(self._sentence, ends, self._started, text)

    def _decode(self, token_id: int) -> str:
        if token_id < 0:
            raise SfiError(f"token ids are 0 or more, got {token_id}")
        if token_id >= len(self._table):
            return ""
        text = self._bytes.decode(self._table.pieces[token_id])
        if self._at_text_start:
            self._at_text_start = False
            if self._table.drops_first_space:
                text = text.removeprefix(" ")
        return text

    def _read(self, text: str) -> None:
        if self._pending is None and not self._has_mark(text):
            if text:
                self._code.other()
            if not self._has_text and text and not text.isspace():
                self._first_visible()
            self._remember(text)
        else:
            for char in text:
                self._take(char)
        lead = self._bytes.getstate()[0][:1]
        if self._pending and lead and lead[0] in _VISIBLE_LEADS:
            self._visible("中")  # a letter for certain, though its last bytes are still to come

    def _take(self, char: str) -> None:
        pending = self._pending
        if char == "`":
            self._visible(char)
            self._code.tick(self._line)
        elif char == "\n":
            self._newline()
            return
        else:
            self._code.other()
            if char.isspace():
                if pending and char not in NO_BREAK_SPACES:
                    pending.gap = max(pending.gap, SPACE)
            elif char in self._spellings and not self._code.inside:
                self._ender(char)
            elif pending and self._closes(char, pending):
                pending.closed = pending.closed or char not in EMPHASIS
            else:
                self._visible(char)
        self._remember(char)

    def _remember(self, text: str) -> None:
        self._line = (self._line + text)[-LINE_MEMORY:]
        if len(self._head) < HEAD_MEMORY:
            self._head += text

    def _newline(self) -> None:
        self._code.newline()
        self._line = ""
        pending = self._pending
        if pending:
            pending.gap = BLANK_LINE if pending.gap >= LINE else LINE
            if "\n" in self._enders:
                pending.kind = Kind.NEWLINE
        elif "\n" in self._enders and self._has_text:
            self._pending = Candidate(Kind.NEWLINE, "\n", LINE)

    def _ender(self, char: str) -> None:
        pending = self._pending
        if not self._has_text or (pending and (pending.kind is Kind.NEWLINE or pending.gap == BLANK_LINE)):
            self._visible(char)  # a leading "..." is the text of its sentence
        elif pending:
            pending.extend(char)
        else:
            self._pending = candidate(self._line, self._head, char)

    def _closes(self, char: str, pending: Candidate) -> bool:
        if pending.gap >= LINE:
            return False
        if pending.gap == SPACE:
            french = char == "»" and self._line.count("«") > self._line.count("»")
            return french or char in ALWAYS_CLOSE
        opens_wide = pending.kind is Kind.WIDE and char in "“‘"
        return (char in CLOSERS or char in EMPHASIS) and not opens_wide

    def _visible(self, char: str) -> None:
        pending, self._pending = self._pending, None
        if not self._has_text:
            self._first_visible()
        elif pending and pending.confirmed_by(char):
            self._next_sentence()
        elif pending:
            self._ended = False  # it went on after all

    def _first_visible(self) -> None:
        self._has_text = self._started = True

    def _next_sentence(self) -> None:
        if not self._started:  # a token counts once, whatever it holds
            self._sentence += 1
        self._started = self._has_text = True
        self._ended = False
        self._head = ""

    def _reports_end(self) -> bool:
        if self._ended or self._pending is None or not self._pending.ends_already():
            return False
        self._ended = True
        return True

    def _special(self) -> bool:
        ends = self._has_text and not self._ended
        if self._has_text:
            self._ended = True
            self._pending = Candidate(Kind.NEWLINE, "\n", NO_GAP)
        self._code = CodeSpans()
        self._line = ""
        return ends


def segment(token_ids: Iterable[int], table: TokenTable, enders: str) -> list[SentenceEvent]:
    """Push a whole sequence through a fresh tracker, e.g. a prompt.

    Parameters
    ----------
    token_ids : iterable of int, length n
    table : TokenTable
    enders : str

    Returns
    -------
    list of SentenceEvent, length n
    """
    push = SentenceTracker(table, enders).push
    return [push(int(token_id)) for token_id in token_ids]
