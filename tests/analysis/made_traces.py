"""Synthetic traces whose answer is known: supports, sentences and tensors given, everything else filled in plausibly."""

from pathlib import Path

import numpy as np
import polars as pl
import torch

from sfi_lab.settings import Settings
from sfi_lab.trace import Trace
from sfi_lab.trace.parts import write_json, write_table, write_tensors
from sfi_lab.trace.schema import FORMAT, SCHEMA_VERSION, SELECTION, STEPS, SUPPORT, TOKENS


def sentences_of(lengths, n):
    """Sentence numbers of n query tokens, from sentence lengths (repeated as needed)."""
    labels = np.repeat(np.arange(200 * len(lengths)), np.tile(lengths, 200))
    return labels[:n].astype(int)


def made_trace(
    root: Path,
    positions: np.ndarray,
    sentences: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    prompt: int = 400,
    layers: tuple[int, ...] = (0,),
    heads: int = 1,
    sparse: bool = False,
    true: tuple[np.ndarray, np.ndarray] | None = None,
    rest: float = 0.0,
    settings: Settings | None = None,
    qk: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] | None = None,
    selection: list[dict] | None = None,
    step_columns: dict | None = None,
) -> Trace:
    """positions int [n, rows, m], heaviest first, rows = layers x heads; weights alike (default: falling, sum 1 - rest).

    sparse: fast steps that read less than everything. true: audited (positions, weights). qk: layer -> q [n, H_q, D],
    k and v [prompt + n, H_kv, D].
    """
    n, rows, m = positions.shape
    assert rows == len(layers) * heads, (rows, layers, heads)
    if weights is None:
        falling = 0.9 ** np.arange(m)
        weights = np.broadcast_to(falling / falling.sum() * (1 - rest), positions.shape)
    root.mkdir(parents=True, exist_ok=True)
    total = prompt + n
    texts = [f" w{i}" for i in range(total + 1)]
    query_sentence = [int(s) + 1 for s in sentences]
    by_position = [0] * prompt + query_sentence + [query_sentence[-1]]
    for i in range(prompt, total):  # a full stop ends each sentence, so that replayed triggers see the same boundaries
        if by_position[i] != by_position[i + 1]:
            texts[i] = "."
    tokens = [
        {
            "position": i,
            "token_id": i % 50,
            "text": texts[i],
            "sentence": by_position[i],
            "role": "prompt" if i < prompt else "generated",
            "special": False,
        }
        for i in range(total + 1)
    ]
    steps = [
        dict.fromkeys(STEPS)
        | {
            "step": t, "token_id": (prompt + t) % 50, "text": texts[prompt + t], "sentence": by_position[prompt + t], "position": prompt - 1 + t,
            "query_sentence": by_position[prompt - 1 + t], "route": "prefill" if t == 0 else "fast" if sparse and t > 1 else "slow",
            "reason": "prompt" if t == 0 else "" if sparse and t > 1 else "first", "refreshed": t == 1,
            "keys_read": None if t == 0 else float(40 if sparse and t > 1 else prompt + t), "keys_available": prompt + t,
            "logprob": -1.0,
        }
        for t in range(n + 1)
    ]  # fmt: skip
    for name, values in (step_columns or {}).items():
        for row, value in zip(steps[1:], values, strict=True):
            row[name] = value
    support = []
    for i in range(n):
        for r in range(rows):
            row = dict.fromkeys(SUPPORT) | {
                "step": i + 1, "layer": layers[r // heads], "kv_head": r % heads, "keys_read": m,
                "positions": positions[i, r].tolist(), "weights": weights[i, r].tolist(), "rest": rest,
            }  # fmt: skip
            if true is not None:
                row |= {
                    "true_positions": true[0][i, r].tolist(),
                    "true_weights": true[1][i, r].tolist(),
                    "true_rest": rest,
                    "missed": 0.1,
                }
            support.append(row)
    write_table(root, "tokens", 0, pl.DataFrame(tokens, schema=TOKENS))
    write_table(root, "support", 0, pl.DataFrame(support, schema=SUPPORT))
    write_table(root, "selection", 0, pl.DataFrame(selection or [], schema=SELECTION))
    write_table(root, "steps", 0, pl.DataFrame(steps, schema=STEPS))
    q_heads, dim = heads, 4
    if qk:
        tensors = {}
        for layer, (q, k, v) in qk.items():
            tensors |= {f"q.{layer}": q, f"k.{layer}": k, f"v.{layer}": v}
            tensors[f"scale.{layer}"] = torch.tensor([q.shape[-1] ** -0.5, float("nan")], dtype=torch.float64)
            q_heads, dim = q.shape[1], q.shape[2]
        write_tensors(root, 0, tensors)
    write_json(
        root / "meta.json",
        {
            "format": FORMAT, "schema_version": SCHEMA_VERSION, "finished": True, "stop_reason": "max_new_tokens",
            "settings": (settings or Settings.paper(k=8, recent=16)).to_dict(), "record": ("audit" if true else "support") + ("+qk" if qk else ""),
            "top": m, "support_layers": list(layers), "qk_layers": sorted(qk or {}), "prompt_tokens": prompt, "seed": 0, "versions": {},
            "model": {"name": "made", "architecture": "none", "layers": max(layers) + 1, "query_heads": q_heads, "kv_heads": heads, "head_dim": dim,
                      "layer_kinds": ["full"] * (max(layers) + 1), "dtype": "float32", "device": "cpu", "max_positions": 4096},
        },
    )  # fmt: skip
    return Trace.open(root)


def stable(n, m=16, rows=1):
    """The same positions at every step."""
    return np.broadcast_to(np.arange(10, 10 + m), (n, rows, m)).copy()


def unrelated(n, m=16, rows=1, among=350, seed=0):
    """Fresh random positions at every step: expected overlap m / among."""
    rng = np.random.default_rng(seed)
    return np.stack([[rng.permutation(among)[:m] for _ in range(rows)] for _ in range(n)])


def by_sentence(sentences, common=8, own=8, rows=1):
    """`common` positions everywhere and `own` that belong to the sentence: overlap 1 within, common / (common + own) across."""
    base = np.arange(common)
    return np.stack([[np.r_[base, 20 + (s % 40) * own + np.arange(own)] for _ in range(rows)] for s in sentences])


def turning_over(n, half_life, m=64, seed=0):
    """Each entry is replaced by a new position with the chance that gives this half-life of the overlap."""
    rng = np.random.default_rng(seed)
    now, new = np.arange(m), m
    out = []
    for _ in range(n):
        out.append(now.copy())
        replaced = rng.random(m) > 0.5 ** (1 / half_life)
        now[replaced] = new + np.arange(replaced.sum())
        new += replaced.sum()
    return np.stack(out)[:, None], new
