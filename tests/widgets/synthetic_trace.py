"""Writes a small trace in the real layout with no model: topics make keys and queries agree, so supports look like supports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import torch
from safetensors.torch import save_file

from sfi_lab.selector import select
from sfi_lab.sentences import TokenTable, segment
from sfi_lab.settings import Settings
from sfi_lab.trace.schema import FORMAT, SCHEMA_VERSION, SELECTION, STEPS, SUPPORT, TOKENS
from sfi_lab.trigger.plan import Planner

WORDS = [
    "the",
    "memory",
    "keeps",
    "what",
    "a",
    "slow",
    "step",
    "chose",
    "while",
    "fast",
    "steps",
    "read",
    "sink",
    "recent",
    "keys",
]
SETTINGS = Settings.paper(k=24, recent=16, t_max=20, prefill_window=1)


def write_trace(
    root: Path,
    *,
    prompt: int = 180,
    steps: int = 60,
    layers: tuple[int, ...] = (1, 3),
    heads: int = 3,
    group: int = 2,
    dim: int = 16,
    top: int = 12,
    settings: Settings = SETTINGS,
    qk: bool = True,
    qk_layers: tuple[int, ...] | None = None,
    layer_kinds: list[str] | None = None,
    seed: int = 7,
) -> Path:
    """A finished trace of `steps` forwards (the prompt's and steps - 1 decode steps) over `prompt` prompt tokens."""
    kept = (layers if qk_layers is None else qk_layers) if qk else ()
    kinds = layer_kinds or ["full"] * (max(layers) + 1)
    rng = np.random.default_rng(seed)
    total = prompt + steps - 1  # cached positions
    texts, sentence, lengths = [], [], []
    number = 0
    while len(texts) <= total:
        length = int(rng.integers(6, 14))
        lengths.append(length)
        words = rng.choice(WORDS, length - 1)
        texts += [" " + w for w in words] + ["."]
        sentence += [number] * length
        number += 1
    texts, sentence = texts[: total + 1], sentence[: total + 1]
    topics = rng.normal(size=(6, heads, dim))
    topic = rng.integers(0, 6, number)[np.asarray(sentence)]
    keys = {n: 0.9 * topics[topic[:total]] + rng.normal(size=(total, heads, dim)) + 0.2 * n for n in layers}
    for k in keys.values():
        k[0] *= 2.5
    queries = {
        n: np.repeat(1.1 * topics[topic[prompt : prompt + steps - 1]], group, axis=1).reshape(
            steps - 1, heads * group, dim
        )
        + 0.6 * rng.normal(size=(steps - 1, heads * group, dim))
        for n in layers
    }

    step_rows, support_rows, selection_rows = [], [], []
    selected: dict[int, np.ndarray] = {}
    table = TokenTable(tuple(texts), tuple(text.encode() for text in texts), frozenset(), frozenset(), False)
    sentence_events, planner = segment(range(len(texts)), table, settings.enders), Planner(settings)
    for t in range(steps):
        position = prompt - 1 + t
        plan = planner.next(position + 1, sentence_events[position], None) if t else None
        slow, reason = (plan.route == "slow", plan.reason) if plan else (False, "prompt")
        length = position + 1
        recent = max(settings.sink, length - settings.recent)
        read = length if (slow or t == 0) else settings.sink + settings.k + length - recent
        step_rows.append(
            {
                "step": t, "token_id": 100 + t, "text": texts[position + 1], "sentence": sentence[position + 1],
                "position": position, "query_sentence": sentence[position],
                "route": "prefill" if t == 0 else "slow" if slow else "fast", "reason": reason, "refreshed": slow,
                "keys_read": float(read), "keys_available": length, "recent_start": recent,
                "drift": None, "logprob": -1.0, "ms_total": 9.0 if slow else 6.0, "ms_model": 5.0,
                "ms_attention": 1.5 if slow else 0.5,
                **{f"ms_{s}": 0.2 if slow else 0.0 for s in ("evidence", "prior", "fusion", "nms", "exclusivity", "topk")},
                "ms_pack": 0.1 if slow else 0.0, "ms_sample": 0.3, "ms_record": 0.2, "kl": None, "top1_agrees": None,
                "missed_mass": None,
            }
        )  # fmt: skip
        if t == 0:
            continue
        for n in layers:
            q = torch.tensor(queries[n][t - 1], dtype=torch.float32).view(heads, group, dim)
            k = torch.tensor(keys[n][:length], dtype=torch.float32)
            logits = torch.einsum("hgd,thd->hgt", q, k) / dim**0.5
            if slow:
                chosen = select(
                    logits[:, :, settings.sink : recent], k[settings.sink : recent].norm(dim=-1).T, settings
                )
                selected[n] = (chosen.ranked + settings.sink).numpy()
                for h in range(heads):
                    selection_rows.append(
                        {
                            "step": t, "layer": n, "kv_head": h, "lam": float(chosen.lam[h]), "first_candidate": settings.sink,
                            "candidates": recent - settings.sink, "positions": selected[n][h].tolist(),
                            "evidence": float(chosen.evidence[h][chosen.ranked[h]].sum()),
                        }
                    )  # fmt: skip
            for h in range(heads):
                ids = np.arange(length) if slow else np.r_[0 : settings.sink, np.sort(selected[n][h]), recent:length]
                weights = torch.softmax(logits[h][:, torch.as_tensor(ids)], -1).mean(0).numpy()
                order = np.argsort(-weights, kind="stable")[:top]
                support_rows.append(
                    {
                        "step": t, "layer": n, "kv_head": h, "keys_read": len(ids), "positions": ids[order].tolist(),
                        "weights": weights[order].tolist(), "rest": float(1 - weights[order].sum()),
                        "true_positions": None, "true_weights": None, "true_rest": None, "missed": None,
                    }
                )  # fmt: skip

    tokens = [
        {
            "position": i,
            "token_id": i,
            "text": texts[i],
            "sentence": sentence[i],
            "special": False,
            "role": "prompt" if i < prompt else "generated",
        }
        for i in range(total + 1)
    ]
    tables = {
        "tokens": (tokens, TOKENS), "steps": (step_rows, STEPS), "support": (support_rows, SUPPORT),
        "selection": (selection_rows, SELECTION),
    }  # fmt: skip
    for name, (rows, schema) in tables.items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows, schema=schema).write_parquet(folder / "part-00000.parquet")
    if qk:
        tensors = {}
        for n in kept:
            tensors[f"q.{n}"] = torch.tensor(queries[n], dtype=torch.float32)
            tensors[f"k.{n}"] = torch.tensor(keys[n], dtype=torch.float32)
            tensors[f"scale.{n}"] = torch.tensor([dim**-0.5, float("nan")], dtype=torch.float64)
            tensors[f"v.{n}"] = torch.tensor(rng.normal(size=keys[n].shape), dtype=torch.float32)
        (root / "qk").mkdir(exist_ok=True)
        save_file(tensors, root / "qk" / "part-00000.safetensors")
    meta = {
        "format": FORMAT, "schema_version": SCHEMA_VERSION, "finished": True, "stop_reason": "length",
        "settings": settings.to_dict(), "record": "support+qk" if qk else "support", "top": top,
        "model": {
            "name": "synthetic", "architecture": "none", "layers": len(kinds), "query_heads": heads * group,
            "kv_heads": heads, "head_dim": dim, "layer_kinds": kinds, "dtype": "float32", "device": "cpu",
        },
        "versions": {}, "seed": seed, "prompt_tokens": prompt, "support_layers": list(layers), "qk_layers": list(kept),
    }  # fmt: skip
    (root / "meta.json").write_text(json.dumps(meta))
    return root
