"""Slow-Fast decoding once more, written out literally: masked dense attention, Python sets and the selector's reference.

Shares nothing with the library's decoder but the way into the model (`attention_function`, `call_model`).
"""

import torch

from plain_attention import ListCache
from selector_reference import reference
from sfi_lab.compat import attention_function, call_model


class LiteralSfi:
    """Attention of one sequence: every query sees what its step allows, by a mask over all positions."""

    def __init__(self, settings, full_layers):
        self.settings, self.full_layers = settings, set(full_layers)
        self.route = "prefill"  # "slow" and "fast" afterwards, set by the caller before each step
        self.refresh = False
        self.dense_layers = None  # with layer groups: those that are dense on a slow step
        self.first = True
        self.selected = {}  # layer -> [set of positions, one a KV head]
        self.window = {}  # layer -> the prompt's last W - 1 queries [H_q, n, D]
        self.window_start = {}  # layer -> start of the recent window at its last refresh
        self.read = {}  # layer -> [set of positions read at this step, one a KV head]
        self.outputs = {}  # layer -> attention output of this step [H_q, n, D]

    def __call__(self, module, query, key, value, attention_mask, scaling=None, softcap=None, s_aux=None, **_):
        layer, s = module.layer_idx, self.settings
        q, k, v = query[0], key[0], value[0]
        heads, n, dim = q.shape
        kv_heads, total, _ = k.shape
        group = heads // kv_heads
        scaling = dim**-0.5 if scaling is None else scaling
        logits = torch.einsum("hnd,htd->hnt", q, k.repeat_interleave(group, 0)) * scaling
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        if attention_mask is not None:
            allowed = attention_mask[0, 0, :, :total].expand(heads, -1, -1).clone()
        else:
            allowed = torch.ones(n, total, dtype=torch.bool).tril(total - n).expand(heads, -1, -1).clone()
        if self.route == "prefill":
            self.window[layer] = torch.cat([self.window.get(layer, q[:, :0]), q], 1)[:, -(s.prefill_window - 1) :]
            if s.prefill_window == 1:
                self.window[layer] = q[:, :0]
        elif layer in self.full_layers:
            dense = self.route == "slow" and (self.dense_layers is None or layer in self.dense_layers)
            if dense and self.refresh:
                self._select(layer, logits, k, total, group, scaling, softcap)
            start = max(s.sink, total - s.recent)
            if s.recent_mode == "pinned":
                start = self.window_start.get(layer, start)
            everything = set(range(total))
            self.read[layer] = [
                everything if dense else {*range(s.sink), *self.selected[layer][h], *range(start, total)}
                for h in range(kv_heads)
            ]
            for h in range(heads):
                allowed[h] = False
                allowed[h, :, sorted(self.read[layer][h // group])] = True
        scores = logits.masked_fill(~allowed, -torch.inf)
        if s_aux is not None:
            scores = torch.cat([scores, s_aux.view(-1, 1, 1).expand(-1, n, 1)], -1)
        weights = scores.softmax(-1)[..., :total]
        out = torch.einsum("hnt,htd->hnd", weights, v.repeat_interleave(group, 0))
        self.outputs[layer] = out
        return out.transpose(0, 1)[None].contiguous(), None

    def _select(self, layer, logits, k, total, group, scaling, softcap):
        s = self.settings
        end = max(s.sink, total - s.recent)
        self.window_start[layer] = end
        chosen = []
        for h in range(k.shape[0]):
            rows = []
            if self.first and layer in self.window:
                n = self.window[layer].shape[1]
                for head in range(h * group, (h + 1) * group):
                    for i in range(n):
                        own = total - 1 - n + i  # position of this window query
                        if own < s.sink:
                            continue  # sees no candidate
                        row = (k[h, s.sink : end] @ self.window[layer][head, i]) * scaling
                        if softcap is not None:
                            row = softcap * torch.tanh(row / softcap)
                        rows.append([float(x) if j <= own else -1e5 for j, x in enumerate(row.tolist(), s.sink)])
            rows += logits[h * group : (h + 1) * group, 0, s.sink : end].tolist()
            chosen.append(rows)
        norms = k[:, s.sink : end].norm(dim=-1).tolist()
        indices = reference(chosen, norms, s)["indices"]
        self.selected[layer] = [{j + s.sink for j in row} for row in indices]


def literal_decode(lab, ids, settings, plans, chunk=10**9):
    """Greedy tokens and what each decode step did.

    plans: a decode step's (route, refresh, dense layers or None) each; the tokens are the literal decoder's own.
    Returns tokens [1 + len(plans)], and per step: logits [V], {layer: sets read}, {layer: output [H_q, D]}, {layer: selected}.
    """
    full = [i for i, kind in enumerate(lab.spec.layer_kinds) if kind == "full"]
    attention, cache = LiteralSfi(settings, full), ListCache(lab.spec.n_layers)
    steps, done = [], 0
    with torch.no_grad(), attention_function(lab.model, "literal", attention):

        def feed(tokens):
            nonlocal done
            positions = torch.arange(done, done + len(tokens))[None]
            done += len(tokens)
            return call_model(lab.model, torch.tensor([tokens]), cache, positions)[0, -1]

        for start in range(0, len(ids), chunk):
            logits = feed(ids[start : start + chunk])
        tokens = [int(logits.argmax())]
        first_logits = logits
        for route, refresh, dense_layers in plans:
            attention.route, attention.refresh, attention.dense_layers = route, refresh, dense_layers
            logits = feed([tokens[-1]])
            attention.first = False
            steps.append((logits, dict(attention.read), {k: v[:, 0] for k, v in attention.outputs.items()},
                          {k: list(v) for k, v in attention.selected.items()}))  # fmt: skip
            tokens.append(int(logits.argmax()))
    return tokens, first_logits, steps
