"""Quest: at every step the pages whose keys could match the query best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.errors import SfiError
from sfi_lab.methods.method import Method, budget_of
from sfi_lab.methods.rule import Rule, span
from sfi_lab.methods.scores import best, over_group
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class Quest(Method):
    """Query-aware pages (Tang et al., "Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference", arXiv 2406.10774).

    The cache is cut into pages; each keeps the least and the greatest value of its keys in every channel. A page's score,
    Σ_i max(q_i · min_i, q_i · max_i), is at least the product of the query with any of its keys. Every step reads
    ⌊B / page⌋ pages: the newest, which may be partly filled, and the best of the others. Nothing is ever dropped. Sink
    and recent positions have no rights: the settings' only count into B.

    B is rounded down to whole pages and the newest page grows from 1 to `page` positions, so a step reads B at most and
    often less: with the published page, 17 to 32 positions of a B of 40, 1 to 16 of a B of 17. `keys_read` says how many.

    page: positions of a page (published: 16), at most B.
    group: "max" or "mean" of the scores of a KV head's query heads. The paper's models have no groups; the default is
        max, because it keeps the meaning of a bound: no key of the page scores higher with any of the heads.
    dense_layers: the model's first layers that read everything (published: 2). B is that of the other layers alone, so
        the mean over all layers is larger, and `keys_read` says so; dense_layers=0 holds every layer to B.
    """

    name = "quest"
    title = "Quest"
    paper = "2406.10774"
    fixed = ()

    page: int = 16
    group: str = "max"
    dense_layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole("page", 1)
        self.check_choice("group", ("mean", "max"))
        self.check_whole("dense_layers", 0)

    def settings(self, base: Settings) -> Settings:
        settings = super().settings(base)
        self._room(settings)  # said before a model is loaded
        return settings

    def rule(self, settings: Settings, spec: ModelSpec) -> BestPages:
        return BestPages(self, self._room(settings) // self.page)

    def _room(self, settings: Settings) -> int:
        """The budget; SfiError if it doesn't hold a page."""
        budget = budget_of(settings)
        if self.page > budget:
            raise SfiError(
                f"quest: page = {self.page} does not fit in {budget} positions (sink + recent + K); allowed: 1 to {budget}, "
                "or a larger budget"
            )
        return budget


class BestPages(Rule):
    """Reads `pages` pages a step: the newest and those with the highest bounds."""

    def __init__(self, method: Quest, pages: int) -> None:
        self.method, self.pages = method, pages
        self._bounds: dict[int, PageBounds] = {}
        self._chosen: dict[int, Tensor] = {}  # of a layer's last read; once a cache is too long it stays so

    def read(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor | None:
        if layer < self.method.dense_layers:
            return None
        bounds = self._bounds.setdefault(layer, PageBounds(self.method.page))
        bounds.follow(k)
        if bounds.count <= self.pages:
            return None
        newest = self.recent_start(k.shape[1])
        positions = span(k, newest, k.shape[1])
        if self.pages > 1:
            ranked = best(over_group(bounds.score(q)[..., :-1], self.method.group), self.pages - 1)
            self._chosen[layer] = self._positions(ranked)
            positions = torch.cat([self._positions(ranked.sort(dim=-1).values), positions], dim=1)
        return positions

    def _positions(self, pages: Tensor) -> Tensor:
        """The positions of whole pages, page after page: int64 [H_kv, n] -> [H_kv, n · page]."""
        size = self.method.page
        return (pages[..., None] * size + torch.arange(size, device=pages.device)).flatten(1)

    def chosen(self, layer: int) -> Tensor | None:
        return self._chosen.get(layer)

    def extra_bytes(self, layer: int, length: int) -> int:
        return self._bounds[layer].nbytes if layer in self._bounds else 0

    def scored(self, layer: int, length: int) -> float:
        """Two vectors, least and greatest, for each page but the newest."""
        pages = -(-length // self.method.page)
        asked = layer >= self.method.dense_layers and 1 < self.pages < pages
        return 2.0 * (pages - 1) if asked else 0.0

    def recent_start(self, length: int) -> int:
        return (length - 1) // self.method.page * self.method.page


class PageBounds:
    """The least and the greatest value of each page's keys, channel by channel, of one layer; grows with the cache."""

    def __init__(self, page: int) -> None:
        self.page = page
        self.length = 0  # positions taken in
        self.least: Tensor | None = None  # [H_kv, pages, D] in the keys' dtype
        self.greatest: Tensor | None = None

    @property
    def count(self) -> int:
        """Pages, the newest of them perhaps partly filled."""
        return -(-self.length // self.page)

    @property
    def nbytes(self) -> int:
        """Bytes held for the bounds."""
        return 0 if self.least is None else self.least.nbytes + self.greatest.nbytes

    def follow(self, k: Tensor) -> None:
        """Takes in the positions that are new since the last call. k [H_kv, T, D]: all of the cache's keys."""
        filled = self.length % self.page
        new = k[:, self.length :]
        if filled and new.shape[1]:  # first the page that was left open
            part = new[:, : self.page - filled]
            self.least[:, -1] = torch.minimum(self.least[:, -1], part.amin(1))
            self.greatest[:, -1] = torch.maximum(self.greatest[:, -1], part.amax(1))
            new = new[:, self.page - filled :]
        if new.shape[1]:
            whole = new.shape[1] // self.page * self.page
            paged, rest = new[:, :whole].unflatten(1, (-1, self.page)), new[:, whole:]
            least, greatest = [paged.amin(2)], [paged.amax(2)]
            if rest.shape[1]:
                least.append(rest.amin(1, keepdim=True))
                greatest.append(rest.amax(1, keepdim=True))
            before = ([], []) if self.least is None else ([self.least], [self.greatest])
            self.least, self.greatest = torch.cat(before[0] + least, dim=1), torch.cat(before[1] + greatest, dim=1)
        self.length = k.shape[1]

    def score(self, q: Tensor) -> Tensor:
        """Σ_i max(q_i · min_i, q_i · max_i) in float32: q [H_kv, G, D] -> [H_kv, G, pages].

        Not scaled and not capped, neither of which changes a head's order.
        """
        up, down = q.float().clamp_min(0.0), q.float().clamp_max(0.0)
        return up @ self.greatest.float().mT + down @ self.least.float().mT
