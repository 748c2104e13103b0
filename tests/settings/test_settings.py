"""Every field's bounds, both presets against the paper's table, and every way in and out."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest

from sfi_lab import Settings, SfiError
from sfi_lab.settings import FIELDS

# field -> (values that are allowed, values that are not)
BOUNDS = {
    "sink": ([0, 4, 4.0, np.int64(7)], [-1, 0.5, "4", None, True, math.inf, math.nan]),
    "recent": ([1, 256], [0, -3, 1.5, "many"]),
    "k": ([1, 1 << 30], [0, -1, 2.5, math.inf, "2048"]),
    "t_max": ([0, 64], [-1, 0.1, None]),
    "trigger": (["sentence", "period", "random", "drift", "never"], ["Sentence", "", None, 3, ["never"]]),
    "period": ([1, 32], [0, -1, 1.5]),
    "seed": ([0, 2**31], [-1, 0.5]),
    "drift_threshold": ([0, 0.3, 2], [-0.1, 2.1, math.nan, "0.3", True]),
    "enders": ([".", ".?!;\n", "。"], ["", None, 3, ["."]]),
    "fire_on": (["boundary", "next_sentence"], ["next", "", None]),
    "min_gap": ([0, 24], [-1, 1.5]),
    "cooldown": ([0, 2], [-1, 1.5]),
    "alpha": ([1e-3, 0.5, 1], [0, -1, 1.01, math.nan, "0.5"]),
    "gamma": ([0, 0.5, 3], [-0.1, math.inf, None]),
    "beta": ([0, 0.568], [-0.1, math.nan]),
    "power": ([0.1, 1.8], [0, -1, math.inf]),
    "eta": ([0, 0.4], [-0.1, "x"]),
    "norm_weight": ([0, 1], [-1]),
    "position_weight": ([0, 0.7], [-1]),
    "lam": (["auto", 0, 0.5, 1], ["Auto", -0.01, 1.01, None, True, math.nan]),
    "lam_clip": ([0, 0.02, 1, (0.35, 0.25), [0, 1]], [-0.1, 1.1, (0.1,), (0.1, 0.2, 0.3), (0.1, 2), "0.1", None]),
    "nms_radius": ([0, 16], [-1, 0.5]),
    "nms_strength": ([0, 0.5, 4], [-0.1]),
    "exclusivity": ([0, 0.35, 4], [-0.1]),
    "temperature": ([0.1, 2], [0, -1]),
    "recent_mode": (["sliding", "pinned"], ["slide", None]),
    "prefill_window": ([1, 16], [0, -1, 1.5]),
    "layer_groups": ([1, 2], [0, -1, 1.5]),
    "rectify": ([True, False], ["true", None, 2]),
}  # fmt: skip


def test_every_field_has_bounds_here_and_a_description_there():
    names = [field.name for field in dataclasses.fields(Settings)]
    assert list(BOUNDS) == names == list(FIELDS)
    for name, field in FIELDS.items():
        assert field.symbol, name
        assert field.meaning, name
        assert field.allowed, name


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds(name):
    allowed, refused = BOUNDS[name]
    for value in allowed:
        made = Settings(**{name: value})
        want = tuple(value) if isinstance(value, list) else value
        assert getattr(made, name) == want, f"{name} = {value!r} is stored as {getattr(made, name)!r}"
        assert Settings.paper(**{name: value}) == made
    for value in refused:
        with pytest.raises(SfiError) as error:
            Settings(**{name: value})
        assert name in str(error.value), f"the message does not name {name}: {error.value}"
        assert FIELDS[name].allowed in str(error.value), f"the message does not say what is allowed: {error.value}"


def test_whole_numbers_are_stored_as_int_and_shares_as_float():
    made = Settings(k=64.0, alpha=1, lam_clip=[0, 1])
    assert (type(made.k), type(made.alpha), made.lam_clip) == (int, float, (0.0, 1.0))


def test_huge_numbers_are_refused_and_not_a_crash():
    for name in ("k", "gamma", "lam"):
        with pytest.raises(SfiError, match=name):
            Settings(**{name: math.inf})
    with pytest.raises(SfiError, match="gamma"):
        Settings(gamma=10**400)


WAYS = {
    "Settings": Settings,
    "paper": Settings.paper,
    "released": Settings.released,
    "dense": Settings.dense,
    "with_": Settings().with_,
    "from_dict": lambda **fields: Settings.from_dict(fields),
}


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_unknown_fields_name_the_nearest(make):
    with pytest.raises(
        SfiError, match=r"unknown setting 'tmax'; did you mean t_max\? Known settings: sink, recent, k,"
    ):
        make(tmax=3)
    with pytest.raises(SfiError, match=r"unknown setting 'zzz'\. Known settings: sink"):
        make(zzz=3)


# the table of paper.md, section 3; K is the speed runs' in both columns
PAPER = {
    "sink": 4, "recent": 256, "k": 2048, "t_max": 64, "enders": ".?!;\n", "trigger": "sentence", "fire_on": "boundary",
    "min_gap": 0, "cooldown": 0, "lam": "auto", "lam_clip": 0.02, "nms_strength": 0.5, "exclusivity": 0.35,
    "recent_mode": "sliding", "prefill_window": 16, "layer_groups": 1,
}  # fmt: skip
RELEASED = {
    "sink": 4, "recent": 256, "k": 2048, "t_max": 96, "enders": ".?!", "trigger": "sentence", "fire_on": "next_sentence",
    "min_gap": 16, "cooldown": 2, "lam": "auto", "lam_clip": (0.35, 0.25), "nms_radius": 16, "nms_strength": 1.0,
    "exclusivity": 0.85, "temperature": 2.0, "alpha": 0.5, "gamma": 0.5, "power": 1.8, "eta": 0.4, "norm_weight": 1.0,
    "position_weight": 0.7, "recent_mode": "sliding", "prefill_window": 16, "layer_groups": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("preset", "table"), [(Settings.paper(), PAPER), (Settings.released(), RELEASED)], ids=["paper", "released"]
)
def test_presets_are_the_published_ones(preset, table):
    got = {name: getattr(preset, name) for name in table}
    assert got == table
    assert preset.beta == pytest.approx(-math.log(0.6) / 0.9, abs=5e-4)


def test_the_released_values_fill_the_papers_gaps():
    unprinted = (
        "alpha",
        "gamma",
        "beta",
        "power",
        "eta",
        "norm_weight",
        "position_weight",
        "temperature",
        "nms_radius",
    )
    assert set(Settings.paper().diff(Settings.released())).isdisjoint(unprinted)


def test_presets_take_overrides():
    assert Settings.paper(k=3836).k == 3836
    assert Settings.released(t_max=32, layer_groups=2, trigger="never").diff(Settings.released()) == {
        "t_max": (32, 96), "layer_groups": (2, 1), "trigger": ("never", "sentence")}  # fmt: skip
    assert Settings.dense(sink=0).sink == 0
    assert Settings.dense().is_dense
    assert not Settings.paper(k=10**6).is_dense


def test_lam_clip_pair_goes_by_rows():
    assert [Settings.released().lam_clip_for(rows) for rows in (1, 2, 48)] == [0.35, 0.25, 0.25]
    assert [Settings.paper().lam_clip_for(rows) for rows in (1, 48)] == [0.02, 0.02]


ODD = [
    Settings.paper(),
    Settings.released(),
    Settings.dense(),
    Settings.paper(lam=0.1, lam_clip=(0.35, 0.25), k=7, enders='."\\\n\t…', recent_mode="pinned"),
    Settings.released(enders="。\x0b\x7f", trigger="drift", alpha=1e-08, gamma=1e22),
]


@pytest.mark.parametrize("settings", ODD, ids=range(len(ODD)))
def test_round_trips(settings):
    assert Settings.from_dict(settings.to_dict()) == settings
    assert eval(settings.to_code(), {"Settings": Settings}) == settings
    assert pickle.loads(pickle.dumps(settings)) == settings == copy.deepcopy(settings)


def test_code_is_short():
    assert Settings.paper(k=256).to_code() == "Settings.paper(k=256)"
    assert Settings.dense().to_code() == "Settings.dense()"
    assert Settings.released(t_max=32).to_code() == "Settings.released(t_max=32)"


def test_missing_fields_take_the_defaults_and_bad_files_say_so(tmp_path):
    def written(text):
        (tmp_path / "s.toml").write_text(text, encoding="utf-8")
        return tmp_path / "s.toml"

    made = Settings.from_toml(written('k = 5\nlam_clip = [0.35, 0.25]\nenders = ".\\n。"\n'))
    assert made == Settings(k=5, lam_clip=(0.35, 0.25), enders=".\n。")
    assert Settings.from_toml(str(written("k = 5")), Settings.released()) == Settings.released(k=5)
    with pytest.raises(SfiError, match=r"s\.toml is not valid TOML"):
        Settings.from_toml(written("k = = 5"))
    with pytest.raises(SfiError, match=r"missing\.toml can't be read"):
        Settings.from_toml(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b"enders = '\xff'")
    with pytest.raises(SfiError, match=r"latin\.toml can't be read"):
        Settings.from_toml(tmp_path / "latin.toml")
    with pytest.raises(SfiError, match="unknown setting 'K'"):
        Settings.from_toml(written("K = 5"))


def test_diff_names_both_values():
    assert Settings.paper().diff(Settings.paper()) == {}
    assert Settings.paper(k=5).diff(Settings.paper(lam=0.2)) == {"k": (5, 2048), "lam": ("auto", 0.2)}


def test_frozen_and_hashable():
    made = Settings(lam_clip=[0.35, 0.25])
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.k = 3
    assert {made: 1}[Settings(lam_clip=(0.35, 0.25))] == 1
    assert len({Settings(), Settings.paper(), Settings.released()}) == 2
