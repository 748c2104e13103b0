"""Studies end to end on a tiny model: tables, report, resuming after a kill, arms that are really matched."""

import json

import polars as pl
import pytest

from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.studies import run_study
from sfi_lab.studies.arms import arms
from sfi_lab.studies.controls import REFERENCE, summarise
from sfi_lab.studies.material import gather
from sfi_lab.studies.reference import reference

SETTINGS = Settings.paper(sink=2, k=24, recent=24, t_max=12, nms_radius=3, prefill_window=4)
SIZE = {
    "prompts": "story_ferry,single_needle:150",
    "prompt_tokens": 150,
    "new_tokens": 24,
    "command": "sfi-lab study …",
}


@pytest.mark.parametrize(
    ("kind", "tables"),
    [
        ("stability", {"curves", "effects", "layers", "heads", "prompts"}),
        ("controls", {"summary", "arms", "steps", "prompts", "proxy", "since_refresh"}),
        ("fidelity", {"summary", "runs", "prompts"}),
        ("tune", {"settings", "prompts"}),
    ],
)
def test_a_study_writes_its_tables_and_a_report_with_numbers(tiny_lab, tmp_path, kind, tables):
    if kind == "stability":
        size = SIZE | {"n": 8, "lags": 6}
    else:
        size = SIZE
    summary = run_study(kind, tiny_lab, SETTINGS, tmp_path / "out", **size)
    assert {path.stem for path in (tmp_path / "out").glob("*.parquet")} == tables
    assert pl.read_parquet(tmp_path / "out" / "prompts.parquet").height == 2
    report = (tmp_path / "out" / "report.md").read_text()
    assert "sfi-lab study …" in report
    assert "2 prompts of at most 150 tokens" in report
    assert "nan" not in report.lower().split("sfi-lab study")[0].replace("tenant", "")
    json.dumps(summary)
    assert not (tmp_path / "out" / "references").exists(), "reference recordings are removed when the study is done"


def test_a_killed_study_goes_on_where_it_was(tiny_lab, tmp_path):
    seen = []

    def killed(line):
        seen.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study("controls", tiny_lab, SETTINGS, tmp_path / "out", progress=killed, **SIZE)
    first = (tmp_path / "out" / "work" / "story_ferry" / "arms.parquet").stat().st_mtime_ns
    seen.clear()
    run_study("controls", tiny_lab, SETTINGS, tmp_path / "out", progress=seen.append, **SIZE)
    assert [line.split()[4] for line in seen] == ["single_needle-150-0"]
    assert (tmp_path / "out" / "work" / "story_ferry" / "arms.parquet").stat().st_mtime_ns == first
    with pytest.raises(SfiError, match="another new_tokens"):
        run_study("controls", tiny_lab, SETTINGS, tmp_path / "out", **(SIZE | {"new_tokens": 25}))


def test_a_kept_reference_is_used_again_only_for_the_very_same_run(tiny_lab, tmp_path):
    (material,) = gather(tiny_lab, "pydoc:1", 100, 20)

    def recorded(new_tokens=20, settings=SETTINGS):
        with reference(tiny_lab, material, new_tokens, settings, tmp_path, keep=True) as made:
            return (tmp_path / material.name / "meta.json").stat().st_mtime_ns, len(made.tokens), made.trajectory

    first = recorded()
    assert first[1:] == (20, "given")
    assert recorded() == first, "the same run was recorded again"
    shorter = recorded(12)
    assert shorter[0] != first[0]
    assert shorter[1] == 12
    assert recorded(12, SETTINGS.with_(recent=20))[0] != shorter[0]


def test_arms_are_matched_in_refreshes_and_in_k(tiny_lab, tmp_path):
    (material,) = gather(tiny_lab, "pydoc:1", 200, 80)
    with reference(tiny_lab, material, 80, SETTINGS, tmp_path) as made:
        found = {arm.name: arm for arm in arms(made, SETTINGS)}
    count = found[REFERENCE].refreshes
    assert count >= 3, "the material has too few sentence ends to say anything"
    for name in (
        "fixed period",
        "random interval",
        "λ = 0",
        "no NMS",
        "no exclusivity",
        "plain Top-K of the evidence",
        "pinned window",
    ):
        assert found[name].equal_refreshes
        assert found[name].refreshes == count, f"{name}: {found[name].refreshes} refreshes, the reference has {count}"
    # random queries have no slow drift to follow, so its count can be missed; then the arm must say so
    drift = abs(found["query drift"].refreshes - count)
    assert drift <= 2
    assert found["query drift"].equal_refreshes == (drift <= 1)
    assert found["first selection kept"].refreshes == 1
    ks = {reading.settings.k for arm in found.values() for reading in arm.readings if hasattr(reading, "settings")}
    assert ks == {SETTINGS.k}
    assert len(found["random interval"].readings) == 3
    assert len({reading.plans for reading in found["random interval"].readings}) > 1, (
        "the random draws are all the same"
    )


def test_controls_pair_by_prompt():
    """Prompts differ tenfold in KL, the arm by 10 % in each: only the paired comparison can see it."""
    rows = []
    for i in range(12):
        for arm, factor in ((REFERENCE, 1.0), ("better", 0.9 + 0.002 * (i % 3)), ("same", 1.0 + 0.05 * (-1) ** i)):
            rows.append(
                {"prompt": f"p{i}", "arm": arm, "group": "g", "equal_refreshes": True, "refreshes": 5.0, "read_share": 0.2, "kl": 0.01 * 1.5**i * factor,
                 "top1": 0.9, "nll": 2.0, "nll_dense": 2.0, "kept": 0.9, "kept_layers": 0.9, "proxy_kept": 0.9, "proxy_error": 0.1}
            )  # fmt: skip
    found = {row["arm"]: row for row in summarise(pl.DataFrame(rows)).iter_rows(named=True)}
    assert found["better"]["kl_ratio"] == pytest.approx(0.902, abs=0.002)
    assert found["better"]["p_holm"] < 0.01
    assert found["better"]["kl_high"] > found[REFERENCE]["kl_low"], "unpaired intervals overlap"
    assert found["same"]["p_holm"] > 0.3
    assert found[REFERENCE]["kl_ratio"] is None


def test_settings_that_leave_nothing_to_select_are_refused(tiny_lab, tmp_path):
    with pytest.raises(SfiError, match="leaves nothing to select in prompts of 150 tokens"):
        run_study("controls", tiny_lab, Settings.paper(), tmp_path, **SIZE)
    with pytest.raises(SfiError, match="unknown study 'speed'; allowed: stability"):
        run_study("speed", tiny_lab, SETTINGS, tmp_path, **SIZE)
