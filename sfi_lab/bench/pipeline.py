"""A slow step's timeline over random weights and K/V: which stage of which layer ran when, and on which stream."""

from __future__ import annotations

from typing import Any

import torch

from sfi_lab.bench.configs import random_model
from sfi_lab.bench.decode import fill_random
from sfi_lab.loading.spec import ModelSpec
from sfi_lab.runtime.engine import Engine
from sfi_lab.runtime.profile import timeline
from sfi_lab.settings import Settings


def measure(config: str, context: int, batch: int, k: int, device: str, dtype: str) -> list[dict[str, Any]]:
    """Rows as in `sfi_lab.runtime.profile`; the step is profiled, not timed."""
    model = random_model(config, context + 64, torch.device(device), getattr(torch, dtype))
    settings = Settings.paper(k=k, recent=min(256, context // 8), trigger="period", period=1, t_max=0)
    engine = Engine(model, ModelSpec.from_model(model), settings, batch, context + 64)
    fill_random(engine, context)
    return timeline(engine, "slow")
