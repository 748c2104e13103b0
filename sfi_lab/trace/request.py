"""What a run is asked to record, and how large that will get, before anything is written."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sfi_lab.errors import SfiError

LEVELS = ("off", "support", "audit")
ALLOWED = ("off", "support", "audit", "support+qk", "audit+qk")
BUDGET = 2_000_000_000  # bytes a trace may take unless the caller says otherwise
_PACKED_SHARE = (
    0.7  # Parquet with zstd keeps about this share of ids and half-precision weights (measured on the demo trace)
)

_SELECTED_BYTES = 2.5  # a selected position in the selection table, packed
_STEP_BYTES = 330  # a row of the steps table; its 30 columns come in parts of 32 rows
_TOKEN_BYTES = 16  # a row of the tokens table


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """How much of a run is kept.

    level: "off", "support" (attended positions and weights at every step) or "audit" (dense attention beside it too).
    qk: also queries, keys and values, so that other settings can be tried on the recording.
    top: positions listed per step, layer and KV head; the rest of the mass is one number.
    support_layers, qk_layers: indices of layers with full attention.
    """

    level: str
    qk: bool
    support_layers: tuple[int, ...]
    qk_layers: tuple[int, ...]
    top: int = 64

    @classmethod
    def parse(
        cls,
        record: str,
        full_layers: Sequence[int],
        support_layers: Sequence[int] | None = None,
        qk_layers: Sequence[int] | None = None,
        top: int = 64,
    ) -> RecordRequest:
        """From the words of the API, e.g. "support+qk"; layers default to all with full attention.

        Raises SfiError for an unknown word, a layer that the model doesn't have or that keeps a window of its own.
        """
        if record not in ALLOWED:
            raise SfiError(f"record = {record!r} is not known; allowed: {', '.join(ALLOWED)}")
        level, _, extra = record.partition("+")
        if qk_layers is not None and not extra:
            raise SfiError(f'qk_layers: record = {record!r} keeps no queries and keys; give "support+qk" or "audit+qk"')
        if isinstance(top, bool) or not isinstance(top, int) or top < 1:
            raise SfiError(f"record_top = {top!r} is not allowed; allowed: a whole number ≥ 1")
        chosen = _checked_layers("record_layers", support_layers, full_layers)
        return cls(level, extra == "qk", chosen, _checked_layers("qk_layers", qk_layers, chosen) if extra else (), top)

    @property
    def on(self) -> bool:
        return self.level != "off"

    @property
    def audit(self) -> bool:
        return self.level == "audit"

    def estimate(
        self,
        prompt: int,
        new: int,
        query_heads: int,
        kv_heads: int,
        head_dim: int,
        itemsize: int,
        read: int | None = None,
        selected: float = 0.0,
    ) -> dict[str, int]:
        """Bytes the trace will take, by part: {"support": …, "qk": …, "tables": …, "total": …}.

        Lengths in tokens, itemsize in bytes. read: keys that a fast step reads (None: at least `top`). selected:
        positions selected at a refresh, divided by the steps between two refreshes. "support" holds the selection too,
        since both grow with the recorded layers.
        """
        if not self.on:
            return {"support": 0, "qk": 0, "tables": 0, "total": 0}
        listed = self.top if read is None else min(self.top, read)
        listed += min(self.top, prompt + new) if self.audit else 0
        row = (16 + listed * (4 + 2)) * _PACKED_SHARE + selected * _SELECTED_BYTES
        support = int(new * len(self.support_layers) * kv_heads * row)
        keys = (prompt + new) * kv_heads * 2 * head_dim
        queries = new * query_heads * head_dim
        qk = len(self.qk_layers) * (keys + queries) * itemsize
        tables = new * _STEP_BYTES + (prompt + new) * _TOKEN_BYTES
        return {"support": support, "qk": qk, "tables": tables, "total": support + qk + tables}

    def check_budget(self, estimate: dict[str, int], budget: int) -> None:
        """Raises SfiError with the number of layers that would fit if the estimate passes the budget (bytes)."""
        total = estimate["total"]
        if total <= budget:
            return
        part, layers = (
            ("qk_layers", self.qk_layers)
            if estimate["qk"] > estimate["support"]
            else ("record_layers", self.support_layers)
        )
        key = "qk" if part == "qk_layers" else "support"
        other = total - estimate[key]
        fits = int((budget - other) * len(layers) / estimate[key]) if budget > other and estimate[key] else 0
        fixed = estimate["tables"]
        both = int((budget - fixed) * len(self.support_layers) / (total - fixed)) if budget > fixed < total else 0
        if fits:
            advice = f"record fewer layers ({part}: about {fits} of {len(layers)} fit)"
        elif both and set(self.qk_layers) in (set(), set(self.support_layers)):
            advice = f"record fewer layers (record_layers: about {both} of {len(self.support_layers)} fit)"
        else:
            advice = (
                "record fewer layers (record_layers and qk_layers), "
                f"fewer positions a step (record_top = {self.top}) or fewer tokens"
            )
        raise SfiError(
            f"this recording would take about {_size(total)}, over the budget of {_size(budget)}; {advice}, "
            "or raise trace_budget"
        )


def _checked_layers(name: str, layers: Sequence[int] | None, allowed: Sequence[int]) -> tuple[int, ...]:
    if layers is None:
        return tuple(allowed)
    try:
        chosen = tuple(sorted({int(layer) for layer in layers}))
    except (TypeError, ValueError):
        raise SfiError(f"{name} = {layers!r} is not allowed; allowed: a list of layer numbers") from None
    wrong = [layer for layer in chosen if layer not in allowed]
    if wrong or not chosen:
        raise SfiError(
            f"{name} = {list(layers)} is not allowed; allowed: layers with full attention that are recorded, {_span(allowed)}"
        )
    return chosen


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def _span(layers: Sequence[int]) -> str:
    layers = list(layers)
    if layers and layers == list(range(layers[0], layers[-1] + 1)):
        return f"{layers[0]} to {layers[-1]}"
    return ", ".join(map(str, layers)) or "none"


def default_trace(model: str) -> Path:
    """traces/<model>-<time> in the working directory."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    return Path("traces") / f"{Path(model).name}-{stamp}"
