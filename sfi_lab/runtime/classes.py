"""The vocabulary as the device sees it: which ids end sentences, open them, or end the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfi_lab.runtime.ops.advance import ENDER, EOS, OPENER
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.sentences import TokenTable


def token_classes(size: int, settings: Settings, tokens: TokenTable | None, eos_ids: Sequence[int]) -> Tensor:
    """int8 [V] of the bits ENDER (T_trig), OPENER and EOS."""
    classes = torch.zeros(size, dtype=torch.int8)
    if tokens is not None:
        classes += ENDER * tokens.ender_mask(settings.enders, size) + OPENER * tokens.opener_mask(settings.enders, size)
    for token in eos_ids:
        classes[token] |= EOS
    return classes


def after_end(classes: Tensor, ids: Sequence[int]) -> bool:
    """True if the last ender of a prompt has no opener behind it."""
    for token in reversed(ids):
        bits = int(classes[token])
        if bits & (ENDER | OPENER):
            return bool(bits & ENDER)
    return False
