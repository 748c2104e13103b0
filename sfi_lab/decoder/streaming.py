"""Streamed text: characters appear when they are whole, stop strings end the run where they begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfi_lab.text.stop_strings import find_stop

_BROKEN = "�"
_LONGEST_HOLD = 8  # tokens a broken character may span; after that it is really broken and is shown as it is


class TextStream:
    """Decodes generated ids piece by piece; the pieces joined are the decoded whole, special tokens left out.

    What might still become part of a character or the beginning of a stop string is held back until that is known, so a
    piece once given never has to be taken back. Stop strings of blanks wait for other text (`find_stop`).
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str] = ()) -> None:
        self._tokenizer, self._stop = tokenizer, tuple(stop)
        self._ids: list[int] = []
        self._shown, self._context = 0, 0  # ids already turned into text, and where decoding starts for context
        self._given = 0  # characters of the text already handed out
        self.text = ""
        self.stopped = False

    def push(self, token_id: int) -> str:
        """The text that this token completes (may be empty)."""
        self._ids.append(token_id)
        before, now = self._decoded()
        if now.endswith(_BROKEN) and len(self._ids) - self._shown < _LONGEST_HOLD:
            return ""
        self._add(now[len(before) :])
        return self._give(len(self.text) - (0 if self.stopped else self._held()))

    def finish(self) -> str:
        """What was held back when the run ended."""
        before, now = self._decoded()
        self._add(now[len(before) :])
        return self._give(len(self.text))

    def _decoded(self) -> tuple[str, str]:
        """Text of the context alone, and of context and new ids together."""
        return self._decode(self._ids[self._context : self._shown]), self._decode(self._ids[self._context :])

    def _add(self, piece: str) -> None:
        if (
            piece
        ):  # ids without text (special tokens) would be no context: some tokenizers treat a text's start differently
            self._context = self._shown
        self._shown = len(self._ids)
        if self.stopped:
            return
        start = len(self.text)
        self.text += piece
        cuts = [find_stop(self.text, word, max(0, start - len(word) + 1)) for word in self._stop]
        if cuts := [cut for cut in cuts if cut >= 0]:
            self.text, self.stopped = self.text[: min(cuts)], True

    def _held(self) -> int:
        """Length of the text's end that may be the beginning of a stop string."""
        longest = 0
        for word in self._stop:
            lengths = range(min(len(word) - 1, len(self.text)), longest, -1)
            longest = next((n for n in lengths if self.text.endswith(word[:n])), longest)
        return longest

    def _give(self, until: int) -> str:
        piece = self.text[self._given : until]
        self._given = max(self._given, until)
        return piece

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True) if ids else ""
