"""Opening a trace: tables as polars frames, queries and keys as tensors, and clear words where it can't be read."""

from __future__ import annotations

import json
import math
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.trace.parts import parts
from sfi_lab.trace.schema import FORMAT, OPTIONAL, SCHEMA_VERSION, TABLES

# what viewers rely on; a folder whose meta.json lacks one of these is no trace of ours
_META = (
    "settings",
    "record",
    "finished",
    "stop_reason",
    "top",
    "support_layers",
    "qk_layers",
    "prompt_tokens",
    "model",
)


class Trace:
    """A recorded run. Open with `Trace.open(path)`; nothing here needs the model.

    steps, tokens: polars DataFrames. support, selection: LazyFrames, filtered to the steps that are complete.
    Columns and units: `sfi_lab.trace.schema`.
    """

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        self.path, self.meta = path, meta

    @classmethod
    def open(cls, path: str | Path) -> Trace:
        """Opens a trace folder, also of a run that was killed (up to its last flush).

        Raises SfiError: no such folder, not a trace, written by a newer version, damaged part, nothing flushed yet.
        """
        root = Path(path)
        if not root.is_dir():
            raise SfiError(f"there is no trace folder at {root}")
        try:
            meta = json.loads((root / "meta.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SfiError(f"{root} is not an sfi_lab trace: it has no meta.json") from None
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise SfiError(f"{root / 'meta.json'} is damaged: it is not readable JSON") from None
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise SfiError(f"{root} is not an sfi_lab trace: its meta.json does not say format {FORMAT!r}")
        version = meta.get("schema_version")
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise SfiError(
                f"{root} has trace schema {version}; this sfi_lab reads up to {SCHEMA_VERSION}: update sfi_lab"
            )
        lacking = [name for name in _META if name not in meta]
        if lacking:
            raise SfiError(f"{root / 'meta.json'} is damaged: it has no {lacking[0]!r}")
        trace = cls(root, meta)
        trace._check_parts()
        return trace

    # tables --------------------------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row a forward of the model."""
        return self._scan("steps").collect().sort("step")

    @cached_property
    def tokens(self) -> pl.DataFrame:
        """One row a position, prompt and generated; the last row was produced but never fed."""
        last = self.steps["position"].max() + 1
        return self._scan("tokens").collect().sort("position").filter(pl.col("position") <= last)

    @property
    def support(self) -> pl.LazyFrame:
        """One row a step, layer and KV head."""
        return self._scan("support").filter(pl.col("step") <= self._last_step)

    @property
    def selection(self) -> pl.LazyFrame:
        """One row a refresh, layer and KV head."""
        return self._scan("selection").filter(pl.col("step") <= self._last_step)

    # what was recorded ---------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings the run used."""
        return Settings.from_dict(self.meta["settings"])

    @property
    def method(self) -> str:
        """How the run was decoded, with parameters, e.g. "sfi" or "snapkv:window=16"; older traces are SFI's."""
        return self.meta.get("method", {}).get("label", "sfi")

    @property
    def slow_fast(self) -> bool:
        """Whether slow steps and the selector made the run (dense decoding is the case that selects nothing), no other method's rule."""
        return self.meta.get("method", {}).get("slow_fast", True)

    @property
    def layers(self) -> list[int]:
        """Layers with recorded support."""
        return list(self.meta["support_layers"])

    @property
    def qk_layers(self) -> list[int]:
        """Layers with recorded queries, keys and values."""
        return list(self.meta["qk_layers"])

    @property
    def kv_heads(self) -> int:
        return self.meta["model"]["kv_heads"]

    @property
    def token_ids(self) -> list[int]:
        """Generated token ids."""
        return self.steps["token_id"].to_list()

    @property
    def text(self) -> str:
        """The generated text (pieces joined; parts of characters appear as "�" in an unfinished trace)."""
        return self.meta.get("text") or "".join(self.steps["text"].to_list())

    @cached_property
    def decode_steps(self) -> list[int]:
        """Steps that decoded one token (all but the prompt's): row i of `queries` belongs to decode_steps[i]."""
        return self.steps.filter(pl.col("route") != "prefill")["step"].to_list()

    # queries and keys ----------------------------------------------------------------------------------------------

    def queries(self, layer: int) -> Tensor:
        """q after norm and RoPE [decode steps, H_q, D], in the model's dtype."""
        return self._tensor("q", layer)[: len(self.decode_steps)]

    def keys(self, layer: int) -> Tensor:
        """k after norm and RoPE [positions, H_kv, D]."""
        return self._tensor("k", layer)[: self._positions]

    def values(self, layer: int) -> Tensor:
        """v [positions, H_kv, D_v]."""
        return self._tensor("v", layer)[: self._positions]

    def window_queries(self, layer: int) -> Tensor | None:
        """The prompt's last W - 1 queries [W - 1, H_q, D], which share the first refresh; None if there were none."""
        return self._tensor("w", layer, required=False)

    def scaling(self, layer: int) -> tuple[float, float | None]:
        """The layer's softmax scale, and its soft-cap or None."""
        scale, cap = self._tensor("scale", layer).tolist()
        return scale, None if math.isnan(cap) else cap

    def sink_logits(self, layer: int) -> Tensor | None:
        """The model's learned sink logits [H_q] of this layer, or None."""
        return self._tensor("sinks", layer, required=False)

    # facts ---------------------------------------------------------------------------------------------------------

    def assert_sparse(self) -> None:
        """Raises SfiError if no step took the sparse path, so that a run that was never sparse can't pass for one."""
        if not (self.steps["route"] == "fast").any():
            reasons = ", ".join(sorted(set(self.steps["reason"].to_list())))
            raise SfiError(f"no step of {self.path} took the sparse path (reasons of its steps: {reasons})")

    def info(self) -> dict[str, Any]:
        """The trace in a few facts, as `sfi-lab trace info` prints them."""
        decoded = self.steps.filter(pl.col("route") != "prefill")
        read, available = decoded["keys_read"].sum(), decoded["keys_available"].sum()
        remade = self.steps["positions_remade"]  # null in traces without it
        reasons = decoded.filter(pl.col("route") == "slow")["reason"].value_counts(sort=True)
        return {
            "path": str(self.path),
            "model": self.meta["model"]["name"],
            "record": self.meta["record"],
            "finished": self.meta["finished"],
            "stop_reason": self.meta["stop_reason"],
            "method": self.method,
            "settings": self.settings.to_code(),
            "prompt_tokens": self.meta["prompt_tokens"],
            "new_tokens": self.steps.height,
            "slow_steps": int((decoded["route"] == "slow").sum()),
            "fast_steps": int((decoded["route"] == "fast").sum()),
            "reasons": dict(reasons.iter_rows()),
            "keys_read_share": round(read / available, 4) if available else None,
            "bytes_kept": self.steps["bytes_kept"][-1],  # as Result has it; most methods hold the prompt whole at first
            "positions_remade": None if remade.null_count() else remade.sum(),
            "support_layers": self.layers,
            "qk_layers": self.qk_layers,
            "bytes": sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file()),
        }

    def __repr__(self) -> str:
        facts = self.info()
        method = "" if self.method == "sfi" else f"{self.method}, "
        return (
            f"Trace({facts['model']}, {method}{facts['settings']}, prompt {facts['prompt_tokens']}, {facts['new_tokens']} new, "
            f"{facts['slow_steps']} slow, {facts['record']})"
        )

    # reading -------------------------------------------------------------------------------------------------------

    @cached_property
    def _last_step(self) -> int:
        return self.steps["step"].max()

    @property
    def _positions(self) -> int:
        return int(self.steps["position"].max()) + 1

    def _check_parts(self) -> None:
        """Every part up to the last steps is there and whole; later ones belong to a flush that was cut short."""
        if not parts(self.path, "steps"):
            raise SfiError(f"{self.path} has no finished step: the run ended before its first flush")
        for table, schema in TABLES.items():
            for part in parts(self.path, table):
                try:
                    columns = pl.read_parquet_schema(part)
                except Exception as error:  # polars raises several kinds, some of them its own, for a damaged file
                    raise SfiError(f"{part} is damaged or truncated: {str(error).splitlines()[0]}") from None
                missing = [name for name in schema if name not in columns and name not in OPTIONAL]
                if missing:
                    raise SfiError(f"{part} is not a {table} table of this schema: column {missing[0]!r} is missing")

        for part in parts(self.path, "qk", "safetensors"):
            try:
                with safe_open(part, framework="pt"):
                    pass  # opening compares the header with the file's length
            except (OSError, SafetensorError) as error:
                raise SfiError(f"{part} is damaged or truncated: {error}") from None
        self._check_complete()

    def _check_complete(self) -> None:
        steps = parts(self.path, "steps")
        tables = ["steps", "tokens", *["support"] * bool(self.layers), *["qk"] * bool(self.qk_layers)]
        for table in tables:
            suffix = "safetensors" if table == "qk" else "parquet"
            have = {part.stem for part in parts(self.path, table, suffix)}
            if table == "support" and pl.scan_parquet(steps[0]).select(pl.len()).collect().item() == 1:
                have.add("part-00000")  # a run of one token: the prompt's forward has no support
            for number in range(int(steps[-1].stem.removeprefix("part-")) + 1):
                if f"part-{number:05d}" not in have:
                    raise SfiError(
                        f"{self.path / table / f'part-{number:05d}.{suffix}'} is missing: the trace is incomplete"
                    )

    def _scan(self, table: str) -> pl.LazyFrame:
        files = parts(self.path, table)
        if not files:
            return pl.LazyFrame(schema=TABLES[table])
        frame = pl.scan_parquet(files)
        later = [name for name in TABLES[table] if name in OPTIONAL and name not in frame.collect_schema().names()]
        return frame.with_columns([pl.lit(None, dtype=TABLES[table][name]).alias(name) for name in later])

    def _tensor(self, kind: str, layer: int, required: bool = True) -> Tensor | None:
        if layer not in self.qk_layers:
            have = ", ".join(map(str, self.qk_layers)) or "none: record with '+qk'"
            raise SfiError(f"{self.path} keeps no queries and keys of layer {layer}; it keeps layers {have}")
        found = []
        for part in parts(self.path, "qk", "safetensors"):
            try:
                with safe_open(part, framework="pt") as file:
                    if f"{kind}.{layer}" in file.keys():  # noqa: SIM118 - safe_open has no __contains__
                        found.append(file.get_tensor(f"{kind}.{layer}"))
            except SafetensorError as error:
                raise SfiError(f"{part} is damaged or truncated: {error}") from None
        if not found and not required:
            return None
        if not found:
            raise SfiError(f"{self.path} has no {kind!r} tensors of layer {layer} yet: nothing was flushed")
        return torch.cat(found)
