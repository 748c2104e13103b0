"""Every method's rule once more, from its paper's definition: loops over heads and positions in float64, sets of positions.

Shares no line with the library. Each function takes a `Layer` and the prompt's length, and returns what every step after
the prompt reads - [step][KV head] as a sorted list - and what it chose, [step][KV head] best first, None where nothing had
to be chosen. What a rule chooses of the prompt counts as the first step's choice.
"""

import math


class Layer:
    """One layer's numbers as nested lists: q [H][G][T][D], k [H][T][D], sinks [H][G] or None."""

    def __init__(self, q, k, scaling=1.0, softcap=None, sinks=None):
        self.q, self.k = q.double().tolist(), k.double().tolist()
        self.scaling, self.softcap = scaling, softcap
        self.sinks = None if sinks is None else sinks.double().tolist()
        self.heads, self.group, self.total = len(self.k), len(self.q[0]), len(self.k[0])

    def attention(self, head, member, query, positions):
        """{position: weight} of one query over the given positions."""
        logits = {}
        for p in positions:
            x = sum(a * b for a, b in zip(self.q[head][member][query], self.k[head][p], strict=True)) * self.scaling
            logits[p] = x if self.softcap is None else self.softcap * math.tanh(x / self.softcap)
        terms = list(logits.values()) + ([] if self.sinks is None else [self.sinks[head][member]])
        top = max(terms)
        total = sum(math.exp(x - top) for x in terms)
        return {p: math.exp(x - top) / total for p, x in logits.items()}


def ranked(score, candidates, count):
    """The best `count` candidates, equal ones by the lower position."""
    return sorted(candidates, key=lambda p: (-score[p], p))[:count]


def put_together(values, how):
    return max(values) if how == "max" else sum(values) / len(values) if how == "mean" else sum(values)


def growing(layer, length, kept, choice):
    """Reads and choices of a rule that drops nothing after the prompt."""
    reads = []
    for t in range(length, layer.total):
        reads.append([sorted(kept[h]) + list(range(length, t + 1)) for h in range(layer.heads)])
    return reads, [choice] + [None] * (len(reads) - 1)


def snapkv(layer, length, budget, window=32, pool=5, pooling="mean", group="mean", own_budget=None):
    w = window if window < budget else budget // 2
    budget = budget if own_budget is None else own_budget
    w = min(w, length)
    if length <= budget:
        return growing(layer, length, [range(length)] * layer.heads, None)
    kept, choice = [], []
    before = range(length - w)
    for h in range(layer.heads):
        per_member = []
        for g in range(layer.group):
            votes = [0.0] * len(before)
            for query in range(length - w, length):
                seen = layer.attention(h, g, query, range(query + 1))
                for p in before:
                    votes[p] += seen[p] / w
            pooled = []
            for p in before:
                near = [votes[o] for o in range(p - pool // 2, p + pool // 2 + 1) if o in before]
                pooled.append(max(near) if pooling == "max" else sum(near) / pool)
            per_member.append(pooled)
        score = [put_together([member[p] for member in per_member], group) for p in before]
        choice.append(ranked(score, before, budget - w))
        kept.append(set(choice[-1]) | set(range(length - w, length)))
    return growing(layer, length, kept, choice if budget > w else None)


def tova(layer, length, budget, heads="all"):
    held = [list(range(length)) for _ in range(layer.heads)]
    reads, choices, last = [], [], length - 1
    for t in range(length, layer.total):
        seen = [[layer.attention(h, g, last, held[h]) for g in range(layer.group)] for h in range(layer.heads)]
        score = [{p: sum(s[p] for s in seen[h]) / layer.group for p in held[h]} for h in range(layer.heads)]
        if heads == "all":
            mean = {p: sum(score[h][p] for h in range(layer.heads)) / layer.heads for p in held[0]}
            score = [mean] * layer.heads
        choice = None
        if len(held[0]) > budget:
            choice = [ranked(score[h], [p for p in held[h] if p != last], budget - 1) for h in range(layer.heads)]
            held = [sorted([*choice[h], last]) for h in range(layer.heads)]
        held = [[*positions, t] for positions in held]
        reads.append([list(positions) for positions in held])
        choices.append(choice)
        last = t
    return reads, choices


def h2o(layer, length, heavy, recent, group="mean"):
    members = range(layer.group)
    gathered = [[[0.0] * layer.total for _ in members] for _ in range(layer.heads)]
    held = [list(range(length)) for _ in range(layer.heads)]
    reads, choices = [], []

    def gather(h, query, positions):
        for g in members:
            for p, weight in layer.attention(h, g, query, positions).items():
                gathered[h][g][p] += weight

    def drop(h, newest):
        old = [p for p in held[h] if p <= newest - recent]
        if len(held[h]) <= heavy + recent:
            return None
        score = {p: put_together([gathered[h][g][p] for g in members], group) for p in old}
        best = ranked(score, old, heavy)
        held[h] = sorted([*best, *(p for p in held[h] if p > newest - recent)])
        return best

    for h in range(layer.heads):
        for query in range(length):
            gather(h, query, range(query + 1))
        drop(h, length - 1)
    for t in range(length, layer.total):
        held = [[*positions, t] for positions in held]
        choice = [drop(h, t) for h in range(layer.heads)]
        reads.append([list(positions) for positions in held])
        for h in range(layer.heads):
            gather(h, t, held[h])
        choices.append(None if choice[0] is None else choice)
    return reads, choices


def knorm(layer, length, budget, continue_in_decode=False, protect_recent=0):
    protect = min(protect_recent, budget - 1)
    held = [list(range(length)) for _ in range(layer.heads)]
    reads, choices = [], []

    def drop(h, newest, safe):
        if len(held[h]) <= budget:
            return None
        smallness = {p: -math.sqrt(sum(x * x for x in layer.k[h][p])) for p in held[h]}
        best = ranked(smallness, [p for p in held[h] if p <= newest - safe], budget - safe)
        held[h] = sorted([*best, *(p for p in held[h] if p > newest - safe)])
        return best

    choice = [drop(h, length - 1, protect) for h in range(layer.heads)]
    if not continue_in_decode:
        return growing(layer, length, held, None if choice[0] is None else choice)
    for t in range(length, layer.total):
        held = [[*positions, t] for positions in held]
        choice = [drop(h, t, max(1, protect)) for h in range(layer.heads)]
        reads.append([list(positions) for positions in held])
        choices.append(None if choice[0] is None else choice)
    return reads, choices


def quest(layer, length, budget, page=16, group="max"):
    reads, choices = [], []
    for t in range(length, layer.total):
        pages = [list(range(first, min(first + page, t + 1))) for first in range(0, t + 1, page)]
        if len(pages) <= budget // page:
            reads.append([list(range(t + 1))] * layer.heads)
            choices.append(None)
            continue
        step, choice = [], []
        for h in range(layer.heads):
            score = []
            for positions in pages[:-1]:
                bounds = []
                for g in range(layer.group):
                    bound = 0.0
                    for i, x in enumerate(layer.q[h][g][t]):
                        channel = [layer.k[h][p][i] for p in positions]
                        bound += max(x * min(channel), x * max(channel))
                    bounds.append(bound)
                score.append(put_together(bounds, group))
            best = ranked(score, range(len(score)), budget // page - 1)
            choice.append([p for number in best for p in pages[number]])
            step.append(sorted([*choice[-1], *pages[-1]]))
        reads.append(step)
        choices.append(choice if choice[0] else None)
    return reads, choices


def oracle(layer, length, sink, recent, k):
    reads, choices = [], []
    for t in range(length, layer.total):
        everything = list(range(t + 1))
        if len(everything) <= sink + recent + k:
            reads.append([everything] * layer.heads)
            choices.append(None)
            continue
        step, choice = [], []
        for h in range(layer.heads):
            seen = [layer.attention(h, g, t, everything) for g in range(layer.group)]
            mean = {p: sum(s[p] for s in seen) / layer.group for p in everything}
            between = [p for p in everything if p >= sink and p <= t - recent]
            choice.append(ranked(mean, between, k))
            step.append(sorted([*range(sink), *choice[-1], *range(t - recent + 1, t + 1)]))
        reads.append(step)
        choices.append(choice)
    return reads, choices
