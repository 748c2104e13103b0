"""Every vocabulary entry decoded once, and T_trig: the ids that look like a sentence end on their own."""

from dataclasses import dataclass
from typing import Any

import torch

from sfi_lab.errors import SfiError
from sfi_lab.sentences.characters import CLOSERS, ender_set, spellings
from sfi_lab.sentences.pieces import vocabulary_pieces


@dataclass(frozen=True, repr=False)
class TokenTable:
    """The vocabulary as text. Built once a tokenizer and passed around; nothing is cached behind it.

    Attributes
    ----------
    texts : tuple of str
        Text by token id, at least ``len(tokenizer)`` of them, leading spaces kept; ``\\ufffd`` stands for bytes that
        are no whole character; empty for unused ids.
    pieces : tuple of bytes
        The same as UTF-8 bytes; a byte-level entry may be a part of a character.
    special : frozenset of int
        Control tokens (end of text, chat marks, padding).
    partial : frozenset of int
        Ids whose bytes aren't whole characters.
    drops_first_space : bool
        The tokenizer's decoder drops one space at the very beginning of a text (sentencepiece).
    """

    texts: tuple[str, ...]
    pieces: tuple[bytes, ...]
    special: frozenset[int]
    partial: frozenset[int]
    drops_first_space: bool

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> "TokenTable":
        """Decode a Hugging Face tokenizer's vocabulary: byte-level BPE, sentencepiece with byte fallback, word pieces.

        Raises
        ------
        SfiError
            If the object has no vocabulary to decode.
        """
        wanted = ("convert_ids_to_tokens", "convert_tokens_to_string", "get_vocab")
        missing = [name for name in wanted if not hasattr(tokenizer, name)]
        if missing:
            raise SfiError(f"a Hugging Face tokenizer is needed, {type(tokenizer).__name__} lacks {', '.join(missing)}")
        pieces, drops_first_space = vocabulary_pieces(tokenizer)
        texts = tuple(piece.decode("utf-8", "replace") for piece in pieces)
        partial = frozenset(i for i, text in enumerate(texts) if "\ufffd" in text and text.encode() != pieces[i])
        added = tokenizer.added_tokens_decoder.items()
        special = frozenset(tokenizer.all_special_ids) | {i for i, token in added if token.special}
        return cls(texts, tuple(pieces), special, partial, drops_first_space)

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"TokenTable({len(self)} ids, {len(self.special)} special, {len(self.partial)} partial)"

    def ender_ids(self, enders: str) -> frozenset[int]:
        """T_trig: ids whose text ends in an ender once closing quotes, brackets and white space are taken off.

        Merged forms (``.\\n``, ``."``, ``);``) and full-width forms count. A newline counts only where ``"\\n"`` is
        among the enders, and then ``:\\n`` counts as well. Special ids never do. Characters that the tokenizer splits
        into several byte pieces can't be in the set; `SentenceTracker` sees them.

        Parameters
        ----------
        enders : str
            One character an ender, e.g. ``".?!;\\n"``.
        """
        allowed = ender_set(enders)
        tails = tuple(spellings(allowed - {"\n"}))
        newline = "\n" in allowed
        found = set()
        for i, text in enumerate(self.texts):
            core = text.rstrip(_CLOSERS_AND_SPACE)
            if core.endswith(tails) or (newline and "\n" in text[len(core) :]):
                found.add(i)
        return frozenset(found - self.special)

    def ender_mask(self, enders: str, size: int | None = None) -> torch.Tensor:
        """T_trig as a mask: torch.bool [size], True at enders; `size` is the width of the model's logits.

        Ids beyond the table are False; ids beyond `size` can't be generated and are left out.
        """
        return self._mask(self.ender_ids(enders), size)

    def opener_mask(self, enders: str, size: int | None = None) -> torch.Tensor:
        """Ids that can open a sentence: torch.bool [size], neither ender, nor white space only, nor special, nor unused.

        With it a GPU loop finds the "next_sentence" token without text: the first opener after an ender.
        """
        enders_found = self.ender_ids(enders)
        openers = {i for i, text in enumerate(self.texts) if text and not text.isspace()}
        return self._mask(openers - enders_found - self.special, size)

    def _mask(self, ids: set[int] | frozenset[int], size: int | None) -> torch.Tensor:
        size = len(self) if size is None else size
        if size < 1:
            raise SfiError(f"size must be the number of logits, at least 1, got {size}")
        mask = torch.zeros(size, dtype=torch.bool)
        mask[[i for i in ids if i < size]] = True
        return mask


_CLOSERS_AND_SPACE = CLOSERS + " \t\n\r\f\v\u00a0\u202f\u3000"
