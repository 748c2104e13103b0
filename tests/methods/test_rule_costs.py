"""What a rule says it stores, looks at and holds beside keys and values, against what it does."""

import types

import pytest
import torch

from rule_driver import DIM, Numbers, drive
from sfi_lab import Settings
from sfi_lab.methods import parse_method

SETTINGS = Settings(sink=2, recent=3, k=7)  # B = 12
HEADS, GROUP, PROMPT, STEPS = 2, 3, 30, 21


def costs(label, length=PROMPT, layer=0, dtype=torch.float32):
    """[(positions read, stored, extra bytes, scored)] of each step."""
    rule = parse_method(label).rule(SETTINGS, types.SimpleNamespace(layer_kinds=("full",) * 3))
    rows = []

    def after(step, positions):
        now = length + step + 1
        rows.append(
            (positions.shape[1], rule.stored(layer, now), rule.extra_bytes(layer, now), rule.scored(layer, now))
        )

    drive(rule, Numbers(HEADS, GROUP, length + STEPS, dtype=dtype), length, layer=layer, after=after)
    return rows


def column(rows, index):
    return [row[index] for row in rows]


@pytest.mark.parametrize("label", ["snapkv:window=4", "pyramidkv:window=4:beta=1", "knorm:skip_layers=0"])
def test_prompt_only_rules_grow_with_the_answer(label):
    rows = costs(label)
    want = [12 + step + 1 for step in range(STEPS)]
    assert column(rows, 0) == column(rows, 1) == want
    assert set(column(rows, 2)) == {0} and set(column(rows, 3)) == {0.0}


def test_pyramids_layers_add_up():
    rows = [costs("pyramidkv:window=4", layer=layer) for layer in range(3)]
    assert [column(r, 0)[0] for r in rows] == [21, 13, 5]
    assert [sum(column(r, 1)[step] for r in rows) for step in range(STEPS)] == [
        3 * (13 + step) for step in range(STEPS)
    ]


def test_tova_holds_the_budget_and_reads_one_more():
    rows = costs("tova")
    assert set(column(rows, 0)) == {13}
    assert set(column(rows, 1)) == {12}
    assert set(column(rows, 2)) == {0} and set(column(rows, 3)) == {0.0}
    short = costs("tova", length=5)
    assert column(short, 0) == [min(6 + step, 13) for step in range(STEPS)]
    assert column(short, 1) == [min(6 + step, 12) for step in range(STEPS)]


def test_h2o_holds_a_sum_for_every_query_head():
    rows = costs("h2o")
    assert set(column(rows, 0)) == set(column(rows, 1)) == {12}
    assert set(column(rows, 2)) == {HEADS * GROUP * 12 * 4}
    assert set(column(rows, 3)) == {0.0}
    assert column(costs("h2o", length=3), 2)[:2] == [HEADS * GROUP * n * 4 for n in (4, 5)]


def test_knorm_that_goes_on_holds_the_norms():
    rows = costs("knorm:skip_layers=0:continue_in_decode=true")
    assert set(column(rows, 0)) == set(column(rows, 1)) == {12}
    assert set(column(rows, 2)) == {HEADS * 12 * 4}


def test_layers_left_whole_hold_everything():
    for label in ("knorm", "knorm:continue_in_decode=true", "quest:page=4"):
        rows = costs(label, layer=1)
        want = [PROMPT + step + 1 for step in range(STEPS)]
        assert column(rows, 0) == column(rows, 1) == want, label
        assert set(column(rows, 2)) == {0} and set(column(rows, 3)) == {0.0}, label


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.bfloat16, 2)])
def test_quest_stores_all_and_looks_at_two_vectors_a_page(dtype, size):
    rows = costs("quest:page=4:dense_layers=0", dtype=dtype)
    lengths = [PROMPT + step + 1 for step in range(STEPS)]
    pages = [-(-length // 4) for length in lengths]
    assert column(rows, 0) == [8 + (length - 1) % 4 + 1 for length in lengths]
    assert column(rows, 1) == lengths
    assert column(rows, 2) == [2 * HEADS * n * DIM * size for n in pages]
    assert column(rows, 3) == [2.0 * (n - 1) for n in pages]
    few = costs("quest:page=4:dense_layers=0", length=2)
    assert column(few, 3) == [0.0 if 3 + step <= 12 else 2.0 * (-(-(3 + step) // 4) - 1) for step in range(STEPS)]
    assert set(column(costs("quest:page=12:dense_layers=0"), 3)) == {0.0}, "the newest page needs no score"


def test_the_oracle_looks_at_every_key():
    rows = costs("oracle")
    lengths = [PROMPT + step + 1 for step in range(STEPS)]
    assert set(column(rows, 0)) == {12}
    assert column(rows, 1) == lengths and column(rows, 3) == lengths
    assert set(column(rows, 2)) == {0}
    assert column(costs("oracle", length=5), 3)[:8] == [0.0] * 7 + [13]


@pytest.mark.parametrize("label", ["snapkv", "pyramidkv", "tova", "h2o", "knorm", "quest", "oracle"])
def test_before_the_first_step_the_prompt_is_held_whole(label):
    rule = parse_method(label).rule(Settings(k=5), types.SimpleNamespace(layer_kinds=("full",) * 3))
    assert rule.stored(2, 77) == 77
    assert rule.extra_bytes(2, 77) == 0
