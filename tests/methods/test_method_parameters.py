"""The methods' names, parameters and refusals."""

import types

import pytest

from sfi_lab import Settings, SfiError
from sfi_lab.methods import METHODS, budget_of, parse_method

SPEC = types.SimpleNamespace(layer_kinds=("full", "sliding", "full"))
SLOW_FAST = ("sfi", "sfi_pinned", "sfi_rectified", "interval", "drift")
OWN_RULE = tuple(name for name in METHODS if name not in ("dense", *SLOW_FAST))
NON_DEFAULT = [
    "snapkv:budget=400:window=16:pool=7:pooling=max:group=max",
    "pyramidkv:window=8:pool=1:beta=7.5",
    "tova:heads=group",
    "h2o:recent_share=0.25:group=sum",
    "knorm:skip_layers=0:continue_in_decode=True:protect_recent=64",
    "quest:page=8:group=mean:dense_layers=0",
    "oracle:budget=300",
]


@pytest.mark.parametrize("text", [*NON_DEFAULT, *METHODS])
def test_label_is_read_back(text):
    method = parse_method(text)
    assert method.label == text
    assert parse_method(method.label) == method


@pytest.mark.parametrize("text", ["knorm:skip_layers=2:protect_recent=0", "pyramidkv:beta=20.0", "h2o:recent_share=.5"])
def test_defaults_are_left_out_of_the_label(text):
    assert parse_method(text).label == text.split(":")[0]


def test_every_method_says_where_it_comes_from():
    for name, method in METHODS.items():
        assert method.name == name and method.title, name
        assert method.paper == "" or method.paper in method.__doc__, f"{name}: the docstring does not name its paper"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("snapkv:pool=4", "snapkv: pool = 4 is not allowed; allowed: an odd whole number"),
        ("snapkv:pool=0", "pool = 0"),
        ("snapkv:window=0", "window = 0 is not allowed; allowed: a whole number ≥ 1"),
        ("snapkv:window=2.5", "window = 2.5"),
        ("snapkv:pooling=sum", "allowed: mean | max"),
        ("snapkv:group=none", "group = None"),
        ("snapkv:beta=3", "snapkv has no parameter 'beta=3'; allowed: budget"),
        ("pyramidkv:beta=0.5", "pyramidkv: beta = 0.5"),
        ("pyramidkv:beta=true", "beta = True"),
        ("pyramidkv:pool=2", "pyramidkv: pool = 2"),
        ("tova:heads=mean", "allowed: all | group"),
        ("h2o:recent_share=1.5", "a number in [0, 1]"),
        ("h2o:group=min", "allowed: mean | max | sum"),
        ("knorm:skip_layers=-1", "skip_layers = -1"),
        ("knorm:continue_in_decode=1", "continue_in_decode = 1 is not allowed; allowed: true | false"),
        ("knorm:protect_recent=-3", "protect_recent = -3"),
        ("quest:page=0", "page = 0"),
        ("quest:group=sum", "allowed: mean | max"),
        ("quest:dense_layers=1.0", "dense_layers = 1.0"),
        ("oracle:budget=1", "budget = 1"),
        ("snapvk", "did you mean snapkv?"),
        ("snapkv:window=16:window=8", "snapkv: window is given twice in 'snapkv:window=16:window=8'; allowed: once"),
        ("snapkv:pool=7:window=16:pool=7", "pool is given twice"),
    ],
)
def test_what_is_not_allowed_is_said(text, message):
    with pytest.raises(SfiError) as error:
        parse_method(text)
    assert message in str(error.value)


def test_a_page_longer_than_the_budget_is_refused():
    with pytest.raises(SfiError, match=r"quest: page = 16 does not fit in 10 positions .* allowed: 1 to 10"):
        parse_method("quest").rule(Settings(sink=1, recent=4, k=5), SPEC)
    for method in ("quest", "quest:budget=10"):  # already where a command checks its options, before it loads a model
        with pytest.raises(SfiError, match="quest: page = 16 does not fit in 10 positions"):
            parse_method(method).settings(Settings(sink=1, recent=4, k=5))


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("dense",)])
def test_the_budget_becomes_k(name):
    base = Settings(sink=4, recent=16, k=99)
    assert budget_of(parse_method(name).settings(base)) == budget_of(base)
    found = parse_method(f"{name}:budget=70").settings(base)
    assert (found.sink, found.recent, found.k) == (4, 16, 50), "windows that fit stay"


@pytest.mark.parametrize("name", SLOW_FAST)
def test_what_a_budget_of_a_slow_fast_method_must_exceed(name):
    paper = Settings.paper()
    with pytest.raises(SfiError) as error:
        parse_method(f"{name}:budget=260").settings(paper)
    assert str(error.value) == (
        f"{name}: budget = 260 leaves nothing to select beside 4 sink and 256 recent positions; "
        "allowed: a budget above 260, or a smaller recent"
    )
    assert parse_method(f"{name}:budget=261").settings(paper).k == 1


@pytest.mark.parametrize("name", OWN_RULE)
def test_a_rule_of_its_own_takes_any_budget_it_can_keep_to(name):
    """Under the paper's recent window of 256, which no budget of these holds."""
    paper = Settings.paper()
    least = {"streaming": 6, "oracle": 6, "quest": 16}.get(name, 2)
    for budget in (least, least + 1, 17, 128, 260, 261):
        found = parse_method(f"{name}:budget={budget}").settings(paper)
        assert budget_of(found) == budget, f"budget {budget}: {found}"
        assert found.recent == (min(max(1, budget // 4), budget - found.sink - 1) if budget < 261 else 256)
        assert found.sink == (4 if budget >= 6 else min(4, budget - 2))
        assert found.diff(paper).keys() <= {"sink", "recent", "k"}, "nothing else changes"
    if least > 2:
        message = "a budget above 5, or a smaller sink" if least == 6 else "allowed: 1 to 15, or a larger budget"
        with pytest.raises(SfiError, match=message):
            parse_method(f"{name}:budget={least - 1}").settings(paper)


def test_each_call_gives_a_rule_of_its_own():
    for name in ("snapkv", "pyramidkv", "tova", "h2o", "knorm", "quest", "oracle", "streaming"):
        method, settings = parse_method(name), Settings(sink=4, recent=16, k=40)
        assert method.rule(settings, SPEC) is not method.rule(settings, SPEC), name


@pytest.mark.parametrize(
    ("window", "budget", "want"), [(32, 60, 32), (32, 33, 32), (32, 32, 16), (64, 21, 10), (5, 2, 1)]
)
def test_snapkvs_window_is_cut_where_it_does_not_fit(window, budget, want):
    settings = Settings(sink=0, recent=1, k=budget - 1)
    for name in ("snapkv", "pyramidkv"):
        assert parse_method(f"{name}:window={window}").rule(settings, SPEC).prompt_queries == want
