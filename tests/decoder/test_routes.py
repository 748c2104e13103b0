"""Which steps are slow and why, what each reads, and the hole that the sliding window leaves."""

import pytest

from sfi_lab import Settings, SfiError

BASE = Settings(sink=2, recent=6, k=5, t_max=0, trigger="never", nms_radius=2)
TEXT = "The river was high. Nobody crossed it that day, and the ferry stayed at its rope. Then the door closed; the lamp went out."


@pytest.fixture(scope="module")
def forced(tiny_lab):
    """Prompt ids and ids of a text to be fed, so that sentence ends are known."""
    ids = tiny_lab.tokenizer(TEXT)["input_ids"]
    return tiny_lab.tokenizer("Wait... what? Really?! Yes! I did not know that.\n")["input_ids"], ids


def run(lab, forced, settings, **options):
    prompt, ids = forced
    return lab.generate(prompt, settings, force=ids, **options)


def slow_at(result):
    return {step.index: step.reason for step in result.steps if step.route == "slow"}


def test_never_is_slow_once(tiny_lab, forced):
    result = run(tiny_lab, forced, BASE)
    assert slow_at(result) == {1: "first"}
    assert result.steps[0].route == "prefill"
    assert result.stop_reason == "forced"
    assert result.token_ids == forced[1]


@pytest.mark.parametrize("t_max", [1, 4, 9])
def test_t_max_counts_fast_steps(tiny_lab, forced, t_max):
    slow = slow_at(run(tiny_lab, forced, BASE.with_(t_max=t_max)))
    assert list(slow)[:4] == [1 + i * (t_max + 1) for i in range(4)]
    assert list(slow.values())[:4] == ["first", "t_max", "t_max", "t_max"]


def test_period_counts_steps_between_refreshes(tiny_lab, forced):
    slow = slow_at(run(tiny_lab, forced, BASE.with_(trigger="period", period=7)))
    assert list(slow) == list(range(1, len(forced[1]), 7))
    assert set(list(slow.values())[1:]) == {"period"}


@pytest.mark.parametrize("fire_on", ["boundary", "next_sentence"])
def test_sentence_fires_on_the_step_that_feeds_the_boundary_or_the_next_token(tiny_lab, forced, fire_on):
    result = run(tiny_lab, forced, BASE.with_(trigger="sentence", fire_on=fire_on, enders=".;"))
    texts = [tiny_lab.tokens.texts[token] for token in forced[1]]
    ends = [i for i, text in enumerate(texts) if text.rstrip().endswith((".", ";"))][:-1]
    assert len(ends) >= 3, texts
    fed = {i + 1: "sentence" for i in ends} if fire_on == "boundary" else {i + 2: "sentence" for i in ends}
    assert slow_at(result) == {1: "first", **fed}


def test_random_repeats_with_its_seed(tiny_lab, forced):
    settings = BASE.with_(trigger="random", period=4)
    runs = [slow_at(run(tiny_lab, forced, settings.with_(seed=seed))) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
    assert len(runs[0]) > 4


def test_drift_goes_by_its_threshold(tiny_lab, forced):
    n = len(forced[1])
    always = slow_at(run(tiny_lab, forced, BASE.with_(trigger="drift", drift_threshold=0.0)))
    assert set(always) == set(range(1, n, 2)), "the step behind a refresh has not drifted yet"
    assert slow_at(run(tiny_lab, forced, BASE.with_(trigger="drift", drift_threshold=2.0))) == {1: "first"}
    some = slow_at(run(tiny_lab, forced, BASE.with_(trigger="drift", drift_threshold=0.9)))
    assert 1 < len(some) < len(always)


@pytest.mark.parametrize("trigger", ["sentence", "period", "random", "drift"])
def test_recording_does_not_change_the_run(tiny_lab, forced, trigger, tmp_path):
    settings = BASE.with_(trigger=trigger, period=5, drift_threshold=0.8, t_max=11)
    plain = tiny_lab.generate(forced[0], settings, 40, ignore_eos=True)
    for record in ("support", "audit+qk"):
        recorded = tiny_lab.generate(forced[0], settings, 40, ignore_eos=True, record=record, trace=tmp_path / record)
        assert recorded.steps == plain.steps


def test_nothing_to_select_until_the_text_outgrows_k(tiny_lab, forced):
    prompt = forced[0][:8]
    result = tiny_lab.generate(prompt, BASE.with_(k=10), force=forced[1][:24])
    # step i has 8 + i positions; beyond sink 2 and recent 6 there are i candidates
    reasons = [step.reason for step in result.steps[1:]]
    assert reasons == ["nothing_to_select"] * 10 + ["first"] + [""] * 12
    assert [step.keys_read for step in result.steps[1:11]] == [9.0 + i for i in range(10)]
    assert {step.keys_read for step in result.steps[12:]} == {18.0}


def test_a_text_shorter_than_the_sink(tiny_lab):
    result = tiny_lab.generate([5], BASE.with_(sink=20), 4, ignore_eos=True)
    assert result.reasons == {"nothing_to_select": 3}


def test_fast_steps_read_a_constant_number_of_keys(tiny_lab, forced):
    result = run(tiny_lab, forced, BASE)
    assert {step.keys_read for step in result.steps[2:]} == {13.0}
    assert result.keys_read_share == pytest.approx(
        (result.steps[1].keys_available + 13 * (len(result.steps) - 2))
        / sum(s.keys_available for s in result.steps[1:])
    )


@pytest.mark.parametrize("mode", ["sliding", "pinned"])
def test_the_hole_of_the_sliding_window(tiny_lab, forced, mode, tmp_path):
    """Positions that leave the window between two refreshes are in no set of the paper's; the pinned window keeps them."""
    settings = BASE.with_(recent_mode=mode, trigger="period", period=9)
    trace = run(tiny_lab, forced, settings, record="support", trace=tmp_path / "t", record_top=1000).trace
    refresh = 0
    holes = 0
    for step, position, route, start in trace.steps.select("step", "position", "route", "recent_start").iter_rows():
        if step == 0:
            continue
        refresh = position if route == "slow" else refresh
        rows = trace.support.filter(step=step).collect()
        assert rows["keys_read"].to_list() == [len(p) for p in rows["positions"].to_list()]
        if route == "slow":
            continue
        left = set(range(max(2, refresh + 1 - 6), position + 1)) - set(range(position + 1 - 6, position + 1))
        for positions in rows["positions"].to_list():
            if mode == "pinned":
                assert left <= set(positions), f"step {step}: {left - set(positions)} fell into the hole"
                assert start == refresh + 1 - 6
            else:
                assert left.isdisjoint(positions), f"step {step}"
                assert start == position + 1 - 6
        holes += len(left)
    assert holes > 0


def test_layer_groups_refresh_in_turn(tiny_lab, forced, tmp_path):
    settings = BASE.with_(trigger="period", period=4, layer_groups=2)
    trace = run(tiny_lab, forced, settings, record="support", trace=tmp_path / "t").trace
    by_step = dict(trace.selection.group_by("step").agg("layer").collect().iter_rows())
    layers = [sorted(set(by_step[step])) for step in sorted(by_step)]
    assert layers[:5] == [[0, 1, 2], [0, 2], [1], [0, 2], [1]]
    slow = trace.steps.filter(route="slow")
    mixed = slow.row(2, named=True)  # layer 1 alone is dense
    assert mixed["keys_read"] == pytest.approx((mixed["keys_available"] + 2 * 13) / 3)


def test_a_run_that_was_never_sparse_says_so(tiny_lab, forced, tmp_path):
    dense = run(tiny_lab, forced, Settings.dense(), record="support", trace=tmp_path / "dense").trace
    with pytest.raises(SfiError, match=r"no step of .* took the sparse path \(reasons of its steps: nothing_to_select"):
        dense.assert_sparse()
    run(tiny_lab, forced, BASE, record="support", trace=tmp_path / "sparse").trace.assert_sparse()
