"""Drives a rule by hand, as the decoder does: a prompt, then steps, on random or constant keys and queries of one layer."""

import torch

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.methods import PromptLayer

DIM = 5


class Numbers:
    """Keys [H_kv, T, D] and queries [H_kv, G, T, D] of a prompt and its steps, and how attention is computed."""

    def __init__(self, heads, group, total, seed=0, constant=False, capped=False, dtype=torch.float32):
        generator = torch.Generator().manual_seed(1000 * heads + 100 * group + total + seed)

        def normal(*shape):
            return torch.randn(*shape, generator=generator)

        self.k, self.q = normal(heads, total, DIM), normal(heads, group, total, DIM)
        if constant:
            self.k, self.q = torch.zeros_like(self.k), torch.zeros_like(self.q)
        self.k, self.q = self.k.to(dtype), self.q.to(dtype)
        self.sinks = normal(heads, group) if capped else None
        self.arguments = AttentionArguments(0.7, 1.5 if capped else None, None if not capped else self.sinks.flatten())
        self.heads, self.group, self.total = heads, group, total

    def weights(self, q, positions):
        """Attention of one query [H_kv, G, D] over positions [H_kv, N]: float32 [H_kv, G, N]."""
        k = torch.gather(self.k, 1, positions[..., None].expand(-1, -1, DIM)).float()
        logits = torch.einsum("hgd,hnd->hgn", q.float(), k) * self.arguments.scaling
        if self.arguments.softcap is not None:
            logits = self.arguments.softcap * torch.tanh(logits / self.arguments.softcap)
        exp = logits.double().exp()
        rest = 0.0 if self.sinks is None else self.sinks.double().exp()[..., None]
        return (exp / (exp.sum(-1, keepdim=True) + rest)).float()

    def received(self, length):
        got = torch.zeros(self.heads, self.group, length)
        for i in range(length):
            got[..., : i + 1] += self.weights(self.q[:, :, i], torch.arange(i + 1).expand(self.heads, -1))
        return got

    def prompt(self, rule, length):
        rows = min(rule.prompt_queries, length)
        return PromptLayer(
            self.k[:, :length],
            self.k[:, :length],
            self.q[:, :, length - rows : length],
            self.received(length) if rule.accumulates else None,
            self.arguments,
        )


def drive(rule, numbers, length, layer=0, after=lambda step, positions: None):
    """What each step reads and what it - or, at the first, the prompt - chose: two lists of [KV head][positions].

    Where nothing was chosen there is None. after: called at the end of each step with its number and what it read.
    """
    rule.prompt(layer, numbers.prompt(rule, length))
    reads, chosen = [], []
    for t in range(length, numbers.total):
        q = numbers.q[:, :, t]
        positions = rule.read(layer, q, numbers.k[:, : t + 1], numbers.arguments)
        everything = torch.arange(t + 1).expand(numbers.heads, -1)
        if positions is not None:
            assert positions.dtype == torch.int64, positions.dtype
            assert positions.shape[0] == numbers.heads, positions.shape
            assert (positions[:, 1:] > positions[:, :-1]).all(), (
                f"step {t - length}: not ascending {positions.tolist()}"
            )
            assert (positions[:, -1] == t).all(), f"step {t - length} misses its own position"
            if positions.shape[1] == t + 1:
                positions = None
        at = everything if positions is None else positions
        rule.attended(layer, numbers.weights(q, at), positions)
        choice = rule.chosen(layer)
        chosen.append(None if choice is None else choice.tolist())
        reads.append(at.tolist())
        after(t - length, at)
    return reads, chosen
