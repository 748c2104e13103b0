"""The choices, with no front end and no trace."""

import pytest

from sfi_lab import Settings, SfiError
from sfi_widgets import MEAN, LabState
from sfi_widgets.state import settings_from_code


@pytest.fixture
def state():
    return LabState(settings=Settings.paper(k=24), layers=[1, 3], kv_heads=3, steps=60, positions=240)


def test_starts_on_the_first_layer_with_everything_in_view(state):
    assert (state.layer, state.kv_head, state.cursor) == (1, MEAN, 1)
    assert state.brush == (0, 60) and state.span == (0, 240)


@pytest.mark.parametrize(("asked", "got"), [(-5, 0), (59, 59), (60, 59), (10_000, 59)])
def test_cursor_is_clamped(state, asked, got):
    state.cursor = asked
    assert state.cursor == got


@pytest.mark.parametrize(
    ("asked", "got"),
    [((50, 10), (10, 50)), ((-3, 4), (0, 4)), ((58, 90), (58, 60)), ((7, 7), (7, 8)), ((99, 99), (59, 60))],
)
def test_brush_stays_inside_and_holds_a_step(state, asked, got):
    state.brush = asked
    assert state.brush == got


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("layer", 2, "recorded layers: 1, 3"), ("kv_head", 3, "allowed: 0 to 2"), ("kv_head", -2, "-1 for the mean")],
)
def test_unknown_layer_or_head_is_refused_with_what_is_allowed(state, name, value, words):
    with pytest.raises(SfiError, match=words):
        setattr(state, name, value)


def test_a_refused_change_leaves_the_settings_and_says_why(state):
    before = state.settings
    assert state.apply(k=0) is False
    assert state.settings is before
    assert state.error == "setting k = 0 is not allowed; allowed: a whole number ≥ 1"
    assert state.apply(k=8, lam=0.25) is True
    assert (state.settings.k, state.settings.lam, state.error) == (8, 0.25, "")


def test_unknown_field_names_the_nearest(state):
    assert not state.apply(t_mx=3)
    assert "did you mean t_max" in state.error


def test_reset_goes_back_to_the_recording(state):
    state.apply(k=3, t_max=2)
    state.reset()
    assert state.settings == Settings.paper(k=24)


@pytest.mark.parametrize(
    "settings",
    [Settings.paper(k=7), Settings.released(lam=0.5, t_max=3), Settings.dense(), Settings(lam_clip=(0.1, 0.2))],
)
def test_code_round_trip(settings):
    assert settings_from_code(settings.to_code()) == settings
    assert settings_from_code("sfi." + settings.to_code()) == settings


@pytest.mark.parametrize(
    "code",
    [
        "",
        "k=3",
        "Settings.paper(open('x'))",
        "__import__('os').getcwd()",
        "Settings.paper(k=open)",
        "Settings.paper(1)",
        "1 +",
    ],
)
def test_code_is_read_and_never_run(state, code):
    before = state.settings
    assert state.apply_code(code) is False
    assert state.settings is before
    assert state.error


def test_layer_change_is_seen_by_observers(state):
    seen = []
    state.observe(lambda change: seen.append((change["old"], change["new"])), "layer")
    state.layer = 3
    assert seen == [(1, 3)]
