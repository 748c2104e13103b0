"""The tests' own attention and cache: written out in full, knowing nothing of the library's attention room."""

import torch

from sfi_lab.compat import KVCache


class ListCache(KVCache):
    """Keeps every key and value of every layer by concatenation."""

    def __init__(self, n_layers: int):
        super().__init__(n_layers)
        self.stored: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def append(self, layer_idx, k, v):
        if layer_idx in self.stored:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self.stored[layer_idx], (k, v), strict=True))
        self.stored[layer_idx] = (k, v)
        return k, v

    def length(self, layer_idx=0):
        return self.stored[layer_idx][0].shape[2] if layer_idx in self.stored else 0


class PlainAttention:
    """softmax(scaling · q kᵀ, soft-capped, masked, sink beside) v; counts its calls and remembers its arguments' names."""

    def __init__(self):
        self.calls = 0
        self.names: set[str] = set()

    def __call__(self, module, query, key, value, attention_mask, scaling=None, softcap=None, s_aux=None, **kwargs):
        self.calls += 1
        self.names |= {name for name, value in kwargs.items() if value is not None}
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        q, kv = scores.shape[2:]
        if attention_mask is None:
            assert q in (1, kv), f"no mask for {q} queries and {kv} keys"
            attention_mask = torch.ones(q, kv, dtype=torch.bool).tril(kv - q)
        assert attention_mask.shape[-2:] == (q, kv), f"mask {tuple(attention_mask.shape)} for {q} x {kv} scores"
        scores = scores.masked_fill(~attention_mask, float("-inf"))
        if s_aux is not None:
            sink = s_aux.reshape(1, -1, 1, 1).expand(scores.shape[0], -1, q, 1)
            weights = torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]
        else:
            weights = scores.softmax(-1)
        return (weights @ value).transpose(1, 2).contiguous(), None
