"""Runs a study over its prompts, one after the other, and goes on where a killed one stopped."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.studies import controls, fidelity, stability, tune_study
from sfi_lab.studies.machine import machine
from sfi_lab.studies.material import DEFAULT, gather
from sfi_lab.studies.reference import reference
from sfi_lab.studies.report import document
from sfi_lab.studies.store import Store

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Study:
    """per_prompt(reference, settings, **options) -> frames, or (frames, arrays); finish(store, names) -> tables, report
    sections and JSON summary; last (optional): what is decoded once all prompts are seen."""

    title: str
    per_prompt: Callable[..., Any]
    finish: Callable[..., Any]
    last: Callable[..., None] | None = None


STUDIES: dict[str, Study] = {
    "stability": Study("Is attention support stable within a sentence?", stability.run_prompt, stability.finish),
    "controls": Study("Controls at equal refresh count and equal K", controls.run_prompt, controls.finish),
    "fidelity": Study("Fidelity to dense decoding", fidelity.run_prompt, fidelity.finish),
    "tune": Study(
        "Settings that keep the most attention for the fewest keys",
        tune_study.run_prompt,
        tune_study.finish,
        tune_study.confirm_prompt,
    ),
}


def run_study(
    kind: str,
    lab: Lab,
    settings: Settings,
    out: str | Path,
    *,
    prompts: str = DEFAULT,
    prompt_tokens: int = 1200,
    new_tokens: int = 128,
    references: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    command: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Runs one of `STUDIES` end to end and writes Parquet tables and report.md into `out`.

    Args:
        settings: of the reference arm; K must leave something to select in prompts of this length.
        prompts: see `material.gather`.
        references: folder where the dense reference recordings are kept for other studies of the same prompts, lengths
            and settings; without it they are removed when their prompt is done.
        progress: told a line a prompt. options: of the study (e.g. n, share and lags for stability, target for tune).

    Returns the JSON summary. Raises SfiError for what can't be run; a second call with the same arguments goes on.
    """
    if kind not in STUDIES:
        raise SfiError(f"unknown study {kind!r}; allowed: {', '.join(STUDIES)}")
    if settings.k + settings.recent + settings.sink >= prompt_tokens:
        raise SfiError(
            f"K = {settings.k} with sink {settings.sink} and recent {settings.recent} leaves nothing to select in prompts of "
            f"{prompt_tokens} tokens; give a smaller --k, or longer prompts"
        )
    study, began = STUDIES[kind], time.perf_counter()
    config = {
        "study": kind, "model": lab.name, "dtype": str(lab.dtype).removeprefix("torch."), "device": lab.device.type, "prompts": prompts,
        "prompt_tokens": prompt_tokens, "new_tokens": new_tokens, "settings": settings.to_dict(), "options": options,
    }  # fmt: skip
    material = gather(lab, prompts, prompt_tokens, new_tokens)
    store = Store(out, config)
    folder = Path(references) if references else store.root / "references"
    say = progress or (lambda line: None)
    keep = references is not None or study.last is not None
    for phase, work in (("", study.per_prompt), ("last.", study.last)):
        if work is None:
            continue
        extra = {"store": store, "names": [m.name for m in material]} if phase else {}
        for done, m in enumerate(material):
            if store.done(phase + m.name):
                continue
            began_prompt = time.perf_counter()
            with reference(lab, m, new_tokens, settings, folder, keep) as made:
                _save(store, phase + m.name, work(made, settings, **options, **extra))
            say(f"{kind}: {done + 1} of {len(material)} {m.name} in {time.perf_counter() - began_prompt:.0f} s")
    names = [m.name for m in material]
    tables, parts, summary = study.finish(store, names)
    facts = machine(lab.device)
    head = (
        f"Model {lab.name} ({config['dtype']}), {len(material)} prompts of at most {prompt_tokens} tokens, {new_tokens} new tokens each, "
        f"`{settings.to_code()}`."
    )
    store.publish(tables, document(study.title, [("Setting", head), *parts], [(facts, command)]))
    if references is None:
        shutil.rmtree(store.root / "references", ignore_errors=True)
    return {
        "study": kind,
        "out": str(store.root),
        "seconds": round(time.perf_counter() - began, 1),
        "machine": facts,
        **summary,
    }


def _save(store: Store, name: str, result: dict[str, pl.DataFrame] | tuple) -> None:
    store.save(name, *(result if isinstance(result, tuple) else (result,)))
