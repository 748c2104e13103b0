"""Streamed text: characters appear when they are whole, stop strings end the run where they begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_BROKEN = "�"
_LONGEST_HOLD = 8  # tokens a broken character may span; after that it is really broken and is shown as it is


class TextStream:
    """Decodes generated ids piece by piece; the pieces joined are the decoded whole, special tokens left out."""

    def __init__(self, tokenizer: Any, stop: Sequence[str] = ()) -> None:
        self._tokenizer, self._stop = tokenizer, tuple(stop)
        self._ids: list[int] = []
        self._shown, self._context = 0, 0  # ids already turned into text, and where decoding starts for context
        self.text = ""
        self.stopped = False

    def push(self, token_id: int) -> str:
        """The text that this token completes (may be empty)."""
        self._ids.append(token_id)
        before = self._decode(self._ids[self._context : self._shown])
        now = self._decode(self._ids[self._context :])
        if now.endswith(_BROKEN) and len(self._ids) - self._shown < _LONGEST_HOLD:
            return ""
        self._context, self._shown = self._shown, len(self._ids)
        return self._add(now[len(before) :])

    def finish(self) -> str:
        """What was held back when the run ended."""
        before = self._decode(self._ids[self._context : self._shown])
        now = self._decode(self._ids[self._context :])
        self._shown = len(self._ids)
        return "" if self.stopped else self._add(now[len(before) :])

    def _add(self, piece: str) -> str:
        start = len(self.text)
        self.text += piece
        cuts = [cut for word in self._stop if (cut := self.text.find(word, max(0, start - len(word) + 1))) >= 0]
        if cuts:
            self.text, self.stopped = self.text[: min(cuts)], True
            return self.text[start:]
        return piece

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True) if ids else ""
