"""The dense run that a prompt's other runs are held against: recorded, with its logits, and made once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfi_lab.settings import Settings
from sfi_lab.studies.material import Material
from sfi_lab.studies.prefix import Prefix
from sfi_lab.trace import Trace

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Reference:
    """A dense run over a prompt. tokens: the n + 1 tokens that every other run is fed or compared with."""

    material: Material
    prefix: Prefix
    trace: Trace

    @property
    def tokens(self) -> list[int]:
        return self.trace.token_ids

    @property
    def trajectory(self) -> str:
        """ "given" (the text that really follows) or "sampled" (the dense model's own, drawn at a temperature)."""
        return "given" if self.material.given else "sampled"


@contextmanager
def reference(
    lab: Lab,
    material: Material,
    new_tokens: int,
    settings: Settings,
    folder: Path,
    keep: bool = False,
    temperature: float = 0.8,
    record: str = "support+qk",
) -> Iterator[Reference]:
    """Records the dense run (or opens a finished one in `folder`); removed afterwards unless `keep`.

    The trajectory is the text that really follows where the material has it; else the dense model's own, drawn at a
    temperature with a seed made from the prompt's name, because a small model's greedy text soon runs in circles.
    Sink, recent and enders are those of `settings`, so that sentences are the study's.
    """
    path = folder / material.name
    prefix = Prefix(lab, list(material.ids))
    dense = Settings.dense(sink=settings.sink, recent=settings.recent, enders=settings.enders)
    wanted = [*material.ids, *material.given[:new_tokens]]
    if not _usable(path, lab, dense, wanted, len(material.ids) + new_tokens, record):
        shutil.rmtree(path, ignore_errors=True)
        recording = {"record": record, "record_top": 64, "trace": path}
        if material.given:
            prefix.forced(dense, material.given[:new_tokens], keep_logits=False, **recording)
        else:
            seed = int(np.frombuffer(material.name.encode(), np.uint8).astype(int).sum())
            prefix.free(dense, new_tokens, temperature, seed, **recording)
    try:
        yield Reference(material, prefix, Trace.open(path))
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)


def _usable(path: Path, lab: Lab, dense: Settings, beginning: list[int], length: int, record: str) -> bool:
    """True if `path` holds a finished recording of this very model, prompt, length and settings."""
    if not (path / "meta.json").is_file():
        return False
    trace = Trace.open(path)
    ids = trace.tokens["token_id"].to_list()
    model = (trace.meta["model"]["name"], trace.meta["model"]["dtype"])
    alike = trace.meta["finished"] and trace.meta["record"] == record and trace.settings == dense
    return (
        alike
        and model == (lab.name, str(lab.dtype).removeprefix("torch."))
        and len(ids) == length
        and ids[: len(beginning)] == beginning
    )


def prompt_row(r: Reference) -> dict:
    """Facts of one reference for the study's table of prompts."""
    sentences = r.trace.steps.filter(pl.col("route") != "prefill")["query_sentence"]
    return {
        "kind": r.material.kind,
        "prompt_tokens": len(r.material.ids),
        "decode_steps": len(r.tokens) - 1,
        "sentences": sentences.n_unique(),
        "trajectory": r.trajectory,
        "text": r.trace.text,
    }
