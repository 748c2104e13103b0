"""What a recording says of its run: whether it fits, who ran what, and one row a token."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers import GenerationConfig

import sfi_lab
from sfi_lab.decoder.rule_state import RuleState
from sfi_lab.methods import parameters
from sfi_lab.sentences import SentenceEvent, TokenTable
from sfi_lab.settings import Settings
from sfi_lab.trace import RecordRequest

if TYPE_CHECKING:
    from sfi_lab.decoder.session import Session
    from sfi_lab.lab import Lab

_SENTENCE_TOKENS = 16  # a usual sentence; only recordings' sizes are estimated with it


def check_size(lab: Lab, s: Settings, request: RecordRequest, prompt: int, new: int, budget: int) -> None:
    """Raises SfiError with advice if a recording of `prompt` + `new` tokens would pass the budget in bytes."""
    spec, itemsize = lab.spec, lab.dtype.itemsize
    selected = min(s.k, max(0, prompt + new - s.sink - s.recent))
    estimate = request.estimate(
        prompt, new, spec.n_query_heads, spec.n_kv_heads, spec.head_dim, itemsize,
        read=s.sink + s.recent + selected, selected=0.0 if s.is_dense else selected / _refresh_interval(s, new),
    )  # fmt: skip
    request.check_budget(estimate, budget)


def token_row(table: TokenTable, position: int, token_id: int, event: SentenceEvent, role: str) -> dict[str, Any]:
    """One row of the trace's token table."""
    return {
        "position": position, "token_id": token_id, "text": event.text, "sentence": event.sentence, "role": role,
        "special": token_id in table.special, "piece": table.pieces[token_id] if token_id < len(table) else b"",
    }  # fmt: skip


def meta(session: Session, prompt_tokens: int, seed: int, config: GenerationConfig) -> dict[str, Any]:
    """Settings, method, model and versions, as the trace's meta.json carries them."""
    lab, spec, method = session.lab, session.lab.spec, session.method
    return {
        "settings": session.settings.to_dict(),
        "method": {
            "label": method.label,
            "name": method.name,
            "slow_fast": not isinstance(session.state, RuleState),
            **parameters(method),
        },
        "prompt_tokens": prompt_tokens,
        "seed": seed,
        "generation": config.to_diff_dict(),
        "model": {
            "name": lab.name,
            "architecture": spec.architecture,
            "layers": spec.n_layers,
            "query_heads": spec.n_query_heads,
            "kv_heads": spec.n_kv_heads,
            "head_dim": spec.head_dim,
            "layer_kinds": list(spec.layer_kinds),
            "dtype": str(lab.dtype).removeprefix("torch."),
            "device": str(lab.device),
            "max_positions": spec.max_positions,
        },
        "versions": {
            "sfi_lab": sfi_lab.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        },
    }


def _refresh_interval(s: Settings, new: int) -> float:
    """Steps between two refreshes as far as they can be told before the text is there."""
    by_trigger = {"period": s.period, "random": s.period, "sentence": _SENTENCE_TOKENS, "drift": _SENTENCE_TOKENS}
    cap = s.t_max + 1 if s.t_max else new
    return max(1, min(by_trigger.get(s.trigger, new), cap, new))
