"""Drawing tokens on the device: temperature, top-k and top-p, in the order transformers applies them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfi_lab.errors import SfiError


@dataclass(frozen=True)
class Sampling:
    """temperature > 0; top_k 0 and top_p 1 switch those off. The same seed draws the same tokens on the same device."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.temperature > 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise SfiError(
                f"{self} is not allowed; allowed: temperature above 0, top_k a whole number ≥ 0, top_p above 0 and up to 1"
            )


def draw(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """One token a row, by the exponential race: argmax of p / e with e ~ Exp(1) has the distribution p.

    logits [B, V] -> int32 [B]. Nothing here waits for the host, so it can be captured; the generator's state then has
    to be registered with the graph.
    """
    scores = logits.float() / sampling.temperature
    if sampling.top_k:
        least = torch.topk(scores, min(sampling.top_k, scores.shape[-1])).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if sampling.top_p < 1.0:
        ascending, order = torch.sort(scores, dim=-1)
        below = torch.softmax(ascending, dim=-1).cumsum(-1)
        drop = below <= 1.0 - sampling.top_p
        drop[:, -1] = False  # the likeliest stays
        scores = scores.masked_fill(drop.scatter(1, order, drop), -torch.inf)
    race = torch.empty_like(scores).exponential_(generator=generator)
    return (torch.softmax(scores, dim=-1) / race).argmax(-1).to(torch.int32)
