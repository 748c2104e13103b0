"""Each rule against its literal twin: what every step reads and what was chosen, on odd shapes, with ties, near the edges."""

import types

import pytest
import torch

import literal_rules as literal
from rule_driver import DIM, Numbers, drive
from sfi_lab import Settings
from sfi_lab.methods import parse_method
from sfi_lab.methods.h2o import HeavyHitters
from sfi_lab.methods.pyramidkv import layer_budgets

STEPS = 23
SHAPES = {"one KV head, no group": (1, 1), "two KV heads, groups of three": (2, 3), "three KV heads, no group": (3, 1)}
LENGTHS = (1, 4, 12, 33)
SETTINGS = Settings(sink=2, recent=3, k=7)  # B = 12
BUDGET = 12


def rule_of(label, settings=SETTINGS, layers=1):
    spec = types.SimpleNamespace(layer_kinds=("full",) * layers)
    return parse_method(label).rule(settings, spec)


# label -> (literal twin, its arguments)
RULES = {
    "snapkv:window=4": (literal.snapkv, {"window": 4}),
    "snapkv": (literal.snapkv, {}),  # a window of 32 in a budget of 12: cut to 6
    "snapkv:window=12:pool=1": (literal.snapkv, {"window": 12, "pool": 1}),
    "snapkv:window=11:pool=3": (literal.snapkv, {"window": 11, "pool": 3}),
    "snapkv:window=1:pool=9:pooling=max": (literal.snapkv, {"window": 1, "pool": 9, "pooling": "max"}),
    "snapkv:window=5:pooling=max:group=max": (
        literal.snapkv, {"window": 5, "pooling": "max", "group": "max"},
    ),
    "tova": (literal.tova, {}),
    "tova:heads=group": (literal.tova, {"heads": "group"}),
    "h2o": (literal.h2o, {"heavy": 6, "recent": 6}),
    "h2o:group=max": (literal.h2o, {"heavy": 6, "recent": 6, "group": "max"}),
    "h2o:group=sum:recent_share=0.2": (literal.h2o, {"heavy": 10, "recent": 2, "group": "sum"}),
    "h2o:recent_share=0": (literal.h2o, {"heavy": 11, "recent": 1}),
    "h2o:recent_share=1": (literal.h2o, {"heavy": 1, "recent": 11}),
    "knorm:skip_layers=0": (literal.knorm, {}),
    "knorm:skip_layers=0:protect_recent=5": (literal.knorm, {"protect_recent": 5}),
    "knorm:skip_layers=0:protect_recent=40": (literal.knorm, {"protect_recent": 40}),
    "knorm:skip_layers=0:continue_in_decode=true": (literal.knorm, {"continue_in_decode": True}),
    "knorm:skip_layers=0:continue_in_decode=true:protect_recent=4": (
        literal.knorm, {"continue_in_decode": True, "protect_recent": 4},
    ),
    "quest:page=3:dense_layers=0": (literal.quest, {"page": 3}),
    "quest:page=5:dense_layers=0:group=mean": (literal.quest, {"page": 5, "group": "mean"}),
    "quest:page=1:dense_layers=0": (literal.quest, {"page": 1}),
    "quest:page=12:dense_layers=0": (literal.quest, {"page": 12}),  # the newest page alone
    "oracle": (literal.oracle, {"sink": 2, "recent": 3, "k": 7}),
}  # fmt: skip


def expected(label, numbers, length):
    twin, arguments = RULES[label]
    layer = literal.Layer(numbers.q, numbers.k, numbers.arguments.scaling, numbers.arguments.softcap, numbers.sinks)
    budget = {} if twin in (literal.h2o, literal.oracle) else {"budget": BUDGET}
    return twin(layer, length, **budget, **arguments)


def check(label, numbers, length):
    want_reads, want_chosen = expected(label, numbers, length)
    reads, chosen = drive(rule_of(label), numbers, length)
    for step, (got, want) in enumerate(zip(reads, want_reads, strict=True)):
        for head in range(numbers.heads):
            assert got[head] == list(want[head]), f"{label}, prompt {length}, step {step}, KV head {head}"
        assert chosen[step] == want_chosen[step], f"{label}, prompt {length}, step {step}: what was chosen"


@pytest.mark.parametrize("label", RULES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reads_and_choices_are_the_literal_rules(label, shape):
    for length in LENGTHS:
        check(label, Numbers(*SHAPES[shape], length + STEPS), length)


@pytest.mark.parametrize("label", RULES)
def test_softcap_and_sink_logits_are_honoured(label):
    check(label, Numbers(2, 3, 30 + STEPS, seed=7, capped=True), 30)


@pytest.mark.parametrize("label", RULES)
def test_ties_go_to_the_lower_position(label):
    numbers = Numbers(2, 3, 30 + STEPS, constant=True)
    check(label, numbers, 30)
    first, again = (drive(rule_of(label), numbers, 30) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("label", RULES)
def test_layers_do_not_mix(label):
    """Two layers told of in turn read what each reads alone."""
    a, b = Numbers(2, 3, 20 + STEPS, seed=1), Numbers(2, 3, 20 + STEPS, seed=2)
    rule, alone = rule_of(label), [drive(rule_of(label), numbers, 20)[0] for numbers in (a, b)]
    steps = {0: [], 1: []}
    rule.prompt(0, a.prompt(rule, 20))
    rule.prompt(1, b.prompt(rule, 20))
    for t in range(20, a.total):
        for layer, numbers in ((0, a), (1, b)):
            q = numbers.q[:, :, t]
            positions = rule.read(layer, q, numbers.k[:, : t + 1], numbers.arguments)
            at = torch.arange(t + 1).expand(2, -1) if positions is None else positions
            rule.attended(layer, numbers.weights(q, at), positions)
            steps[layer].append(at.tolist())
    assert [steps[0], steps[1]] == alone


@pytest.mark.parametrize("label", RULES)
def test_half_precision_keys(label):
    """Keys and queries in bfloat16 are scored in float32, as the literal rule scores their values."""
    check(label, Numbers(2, 3, 33 + STEPS, seed=3, dtype=torch.bfloat16), 33)


@pytest.mark.parametrize("label", [*RULES, "pyramidkv", "streaming"])
@pytest.mark.parametrize("length", [1, 4, 9])
def test_a_budget_as_long_as_the_text_reads_everything(label, length):
    numbers = Numbers(2, 3, length + 20)
    settings = SETTINGS.with_(k=64)
    reads, chosen = drive(rule_of(label, settings, layers=3), numbers, length)
    for step, heads in enumerate(reads):
        assert heads == [list(range(length + step + 1))] * 2, f"{label}, step {step}"
    assert chosen == [None] * 20, "nothing is chosen where everything is read"


def test_recent_start_is_where_unconditional_reading_begins():
    """From `recent_start` on every position is read, whatever its score."""
    numbers = Numbers(2, 3, 30 + STEPS)
    for label in [*RULES, "streaming"]:
        rule = rule_of(label)

        def after(step, positions, rule=rule, label=label):
            length = 31 + step
            start = rule.recent_start(length)
            newest = set(range(start, length))
            assert all(newest <= set(head) for head in positions.tolist()), f"{label}, step {step}, from {start} on"

        drive(rule, numbers, 30, after=after)


# PyramidKV's budgets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "window", "beta", "layers", "length", "want"),
    [
        (32, 8, 20, 4, 1000, (55, 40, 24, 9)),  # 46.8, 31.6, 16.4, 1.2 beside the window
        (32, 8, 20, 4, 40, (40, 35, 29, 24)),  # the prompt has no more: 32, 26.7, 21.3, 16
        (12, 4, 1, 3, 1000, (12, 12, 12)),
        (12, 4, 20, 1, 1000, (12,)),
        (9, 8, 20, 5, 1000, (10, 9, 9, 9, 8)),  # 1.95, 1.475, 1, 0.525, 0.05
        (12, 4, 20, 0, 1000, ()),
    ],
)
def test_pyramid_by_hand(budget, window, beta, layers, length, want):
    assert layer_budgets(budget, window, beta, layers, length) == want


def test_pyramid_sums_exactly_and_falls():
    generator = torch.Generator().manual_seed(5)

    def draw(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    for _ in range(300):
        window, layers = draw(1, 70), draw(2, 40)
        budget = window + draw(1, 300)
        length, beta = budget + draw(1, 900), draw(1, 60) + 0.25 * draw(0, 4)
        case = f"budget {budget}, window {window}, beta {beta}, {layers} layers, prompt {length}"
        got = layer_budgets(budget, window, beta, layers, length)
        assert sum(got) == layers * budget, case
        assert sorted(got, reverse=True) == list(got), case
        assert got[-1] >= window and got[0] <= length, case
        if got[0] < length - 1:  # the paper's ends, within rounding
            assert abs(got[-1] - window - (budget - window) / beta) < 1, case
            assert abs(got[0] + got[-1] - 2 * budget) <= 1, case


@pytest.mark.parametrize("shape", SHAPES)
def test_pyramid_is_snapkv_with_each_layers_budget(shape):
    numbers = Numbers(*SHAPES[shape], 40 + 5)
    layer = literal.Layer(numbers.q, numbers.k, numbers.arguments.scaling)
    spec = types.SimpleNamespace(layer_kinds=("full", "sliding", "full", "full", "sliding"))
    budgets = dict(zip((0, 2, 3), layer_budgets(BUDGET, 4, 20, 3, 40), strict=True))
    assert budgets == {0: 20, 2: 12, 3: 4}, "8 beside the window: 15.6, 8, 0.4"
    for number, own in budgets.items():
        rule = parse_method("pyramidkv:window=4").rule(SETTINGS, spec)
        reads, chosen = drive(rule, numbers, 40, layer=number)
        want_reads, want_chosen = literal.snapkv(layer, 40, BUDGET, window=4, own_budget=own)
        assert reads == [[list(head) for head in step] for step in want_reads], f"layer {number}"
        assert chosen == want_chosen, f"layer {number}"


# particular to one rule ----------------------------------------------------------------------------------------------


def test_tovas_heads_share_one_set_or_have_their_own():
    numbers = Numbers(3, 2, 40 + STEPS)
    shared, own = (drive(rule_of(label), numbers, 40)[0][-1] for label in ("tova", "tova:heads=group"))
    assert shared[0] == shared[1] == shared[2]
    assert len({tuple(head) for head in own}) > 1


def test_a_position_that_h2o_dropped_never_comes_back():
    numbers = Numbers(2, 3, 30 + STEPS)
    reads, _ = drive(HeavyHitters(4, 4, "mean"), numbers, 30)
    for head in range(2):
        gone = set()
        for step, positions in enumerate(reads):
            now = set(positions[head])
            assert len(now) == 8 and not now & gone, f"step {step}"
            gone |= set(range(31 + step)) - now


def test_h2o_keeps_a_heavy_position_that_leaves_the_window():
    """Position 5 is what every later query looks for; with uniform queries it would not stay."""
    numbers = Numbers(1, 1, 30)
    numbers.k = torch.zeros(1, 30, DIM)
    numbers.q = torch.ones(1, 1, 30, DIM)
    plain = drive(HeavyHitters(2, 3, "mean"), numbers, 10)[0][-1][0]
    numbers.k[:, 5] = 2.0
    heavy = drive(HeavyHitters(2, 3, "mean"), numbers, 10)[0][-1][0]
    assert plain == [0, 1, 27, 28, 29]
    assert heavy == [0, 5, 27, 28, 29]


def test_quests_bounds_follow_the_cache_in_pieces_of_any_size():
    from sfi_lab.methods.quest import PageBounds

    k = Numbers(2, 1, 41).k
    for pieces in ([41], [1] * 41, [3, 9, 1, 17, 11], [8, 8, 8, 17]):
        bounds, end = PageBounds(4), 0
        for piece in pieces:
            end += piece
            bounds.follow(k[:, :end])
            pages = k[:, :end].split(4, dim=1)
            assert bounds.count == len(pages), pieces
            assert torch.equal(bounds.least, torch.stack([p.amin(1) for p in pages], 1)), pieces
            assert torch.equal(bounds.greatest, torch.stack([p.amax(1) for p in pages], 1)), pieces


def test_quests_score_is_never_below_a_keys_product():
    from sfi_lab.methods.quest import PageBounds

    numbers = Numbers(2, 3, 40)
    bounds = PageBounds(7)
    bounds.follow(numbers.k)
    score = bounds.score(numbers.q[:, :, -1])
    for page, keys in enumerate(numbers.k.split(7, dim=1)):
        products = torch.einsum("hgd,hpd->hgp", numbers.q[:, :, -1], keys)
        assert (score[..., page, None] >= products - 1e-5).all(), f"page {page}"


def test_first_layers_that_read_everything():
    numbers = Numbers(2, 3, 30 + 4)
    for label in ("knorm:skip_layers=2", "quest:page=4:dense_layers=2"):
        for layer, everything in ((0, True), (1, True), (2, False)):
            reads, chosen = drive(rule_of(label), numbers, 30, layer=layer)
            assert (len(reads[0][0]) == 31) == everything, f"{label}, layer {layer}"
            assert (chosen[0] is None) == everything, f"{label}, layer {layer}"
