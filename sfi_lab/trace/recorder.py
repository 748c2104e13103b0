"""The recorder: told what each step did, it writes the trace as the run goes."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.errors import SfiError
from sfi_lab.selector import Selection
from sfi_lab.trace.parts import write_json, write_table, write_tensors
from sfi_lab.trace.request import RecordRequest
from sfi_lab.trace.schema import FORMAT, SCHEMA_VERSION, SELECTION, STEPS, TOKENS
from sfi_lab.trace.support import Attended, SupportRows, support_frame, support_rows


class Recorder:
    """Writes one run's trace into a folder, a part of every table each `flush_every` steps.

    The decoder calls `attended` and `selected` while a step runs and `step_done` after it; `close` writes what is
    left and marks the trace finished. What was flushed stays readable whatever happens to the process.
    """

    def __init__(self, root: Path, request: RecordRequest, meta: dict[str, Any], flush_every: int = 32) -> None:
        self.root, self.request = root, request
        self._flush_every = flush_every
        self._steps: list[dict[str, Any]] = []
        self._tokens: list[dict[str, Any]] = []
        self._support: list[SupportRows] = []
        self._selection: list[dict[str, Any]] = []
        self._queries: dict[int, list[Tensor]] = {layer: [] for layer in request.qk_layers}
        self._attended: dict[int, Attended] = {}
        self._part = 0
        self._kv_written = 0
        self._once: dict[str, Tensor] = {}  # tensors that the next part carries and no other
        self._scaled: set[int] = set()
        self._closed = False
        if root.exists() and not root.is_dir():
            raise SfiError(f"trace folder {root} is a file; give the name of a new folder")
        if root.exists() and any(root.iterdir()):
            raise SfiError(
                f"trace folder {root} exists and is not empty; give a new folder, nothing recorded is overwritten"
            )
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SfiError(f"trace folder {root} can't be made: {error.strerror}") from None
        self.meta = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "finished": False,
            "stop_reason": None,
            "record": request.level + ("+qk" if request.qk else ""),
            "top": request.top,
            "support_layers": list(request.support_layers),
            "qk_layers": list(request.qk_layers),
            **meta,
        }
        write_json(root / "meta.json", self.meta)

    # during a step -------------------------------------------------------------------------------------------------

    def attended(self, layer: int, q: Tensor, seen: Attended, arguments: AttentionArguments) -> None:
        """One layer's attention. q [H_kv, G, D]."""
        if layer in self._queries:
            self._queries[layer].append(q.reshape(-1, q.shape[-1]))
            if layer not in self._scaled:
                self._scaled.add(layer)
                softcap = float("nan") if arguments.softcap is None else arguments.softcap
                self._once[f"scale.{layer}"] = torch.tensor([arguments.scaling, softcap], dtype=torch.float64)
                if arguments.sink_logits is not None:
                    self._once[f"sinks.{layer}"] = arguments.sink_logits.detach().clone()
        if layer in self.request.support_layers:
            self._attended[layer] = seen

    def selected(self, step: int, layer: int, selection: Selection, first: int) -> None:
        """One layer's refresh; `first` is the position of candidate 0."""
        if layer not in self.request.support_layers:
            return
        share = torch.gather(selection.evidence, 1, selection.ranked).sum(-1).tolist()
        self._add_selection(
            step, layer, selection.ranked + first, first, selection.evidence.shape[1], selection.lam.tolist(), share
        )

    def chose(self, step: int, layer: int, ranked: Tensor, length: int) -> None:
        """One layer's choice by a method's rule out of `length` positions, best first [H_kv, K]; it has no λ and no evidence."""
        if layer in self.request.support_layers:
            nothing = [None] * len(ranked)
            self._add_selection(step, layer, ranked, 0, length, nothing, nothing)

    def _add_selection(
        self, step: int, layer: int, ranked: Tensor, first: int, candidates: int, lam: list, share: list
    ) -> None:
        positions = ranked.to(torch.int32).cpu().numpy()
        self._selection += [
            {
                "step": step, "layer": layer, "kv_head": head, "lam": lam[head], "first_candidate": first,
                "candidates": candidates, "positions": positions[head], "evidence": share[head],
            }
            for head in range(len(positions))
        ]  # fmt: skip

    def window(self, layer: int, q: Tensor) -> None:
        """The prompt's last queries [H_q, W - 1, D], which share the first refresh."""
        if layer in self._queries:
            self._once[f"w.{layer}"] = q.transpose(0, 1).clone()

    # after a step --------------------------------------------------------------------------------------------------

    def add_tokens(self, rows: list[dict[str, Any]]) -> None:
        """Rows of the token table."""
        self._tokens.extend(rows)

    def summarise(self, step: int) -> float | None:
        """Reduces the finished step's attention to support rows; the mean missed mass (audit) or None."""
        rows = support_rows(step, self._attended, self.request.top)
        self._attended = {}
        self._support.extend(rows)
        missed = [row.missed for row in rows if row.missed is not None]
        count = sum(len(m) for m in missed)
        return float(sum(m.sum() for m in missed) / count) if count else None

    def step_done(self, row: dict[str, Any], caches: list[Any]) -> None:
        """One row of the steps table (missing columns become null); flushes when it is time."""
        self._steps.append(row)
        if len(self._steps) >= self._flush_every:
            self.flush(caches)

    def flush(self, caches: list[Any]) -> None:
        """Writes everything gathered since the last flush; `caches` are the layers' full caches (for keys and values)."""
        if not self._steps:  # a run stopped before its first step was whole has nothing to show
            return
        if self._tokens:
            write_table(self.root, "tokens", self._part, pl.DataFrame(self._tokens, schema=TOKENS))
        if self._support:
            write_table(self.root, "support", self._part, support_frame(self._support))
        if self._selection:
            write_table(self.root, "selection", self._part, pl.DataFrame(self._selection, schema=SELECTION))
        if self.request.qk:
            self._flush_qk(caches)
        filled = [{name: row.get(name) for name in STEPS} for row in self._steps]
        write_table(self.root, "steps", self._part, pl.DataFrame(filled, schema=STEPS))
        self._steps, self._tokens, self._support, self._selection = [], [], [], []
        self._part += 1

    def close(self, stop_reason: str, caches: list[Any], **meta: Any) -> None:
        """Flushes and marks the trace finished; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.flush(caches)
        self.meta |= {"finished": True, "stop_reason": stop_reason, **meta}
        write_json(self.root / "meta.json", self.meta)

    def _flush_qk(self, caches: list[Any]) -> None:
        tensors = {}
        for layer, queries in self._queries.items():
            cache = caches[layer]
            tensors[f"k.{layer}"] = cache.k[:, self._kv_written :].transpose(0, 1)
            tensors[f"v.{layer}"] = cache.v[:, self._kv_written :].transpose(0, 1)
            if queries:
                tensors[f"q.{layer}"] = torch.stack(queries)
        write_tensors(self.root, self._part, tensors | self._once)
        # forgotten only now: an interrupt while writing must not cost what a second try can still write
        self._queries = {layer: [] for layer in self._queries}
        self._once = {}
        self._kv_written = next((caches[layer].length for layer in self._queries), 0)
