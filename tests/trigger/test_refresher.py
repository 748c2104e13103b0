"""Each rule of the trigger as a line of steps and a line of answers."""

import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import sfi_lab
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.trigger import POLICIES, Refresher
from trigger_events import events, letters, schedule, settings

# steps: `.` an end, `S` a start, `B` both; answers: F first, s sentence, T t_max, p period, - fast
CASES = {
    "boundary": ({}, "-..-S--.", "Fss----s"),
    "boundary takes no notice of starts": ({}, "-S-S-", "F----"),
    "next sentence": ({"fire_on": "next_sentence"}, "-.S-.-S-", "F-s---s-"),
    "t_max counts fast steps": ({"t_max": 3}, "---------", "F---T---T"),
    "t_max of one": ({"t_max": 1}, "------", "F-T-T-"),
    "no cap": ({"t_max": 0}, "-" * 40, "F" + "-" * 39),
    "a sentence restarts t_max": ({"t_max": 3}, "--.------", "F-s---T--"),
    "a sentence on t_max's step is the reason": ({"t_max": 3}, "----.----", "F---s---T"),
    "min_gap holds back": ({"min_gap": 3}, "-.-.-.-.", "F--s---s"),
    "min_gap is met exactly": ({"min_gap": 4}, "----.---.", "F---s---s"),
    "t_max counts for min_gap": ({"min_gap": 3, "t_max": 2}, "----..-", "F--T--T"),
    "cooldown makes marks one": ({"cooldown": 2}, "--...----.", "F-s------s"),
    "cooldown is over": ({"cooldown": 2}, "--.--.", "F-s--s"),
    "held back ones cool down too": ({"cooldown": 2, "min_gap": 3}, "-.-..-.", "F---s--"),
    "an ignored one does not prolong": ({"cooldown": 2}, "-......", "Fs--s--"),
    "one at the first step counts": ({"cooldown": 2}, "...-.", "F---s"),
    "t_max goes on in a cooldown": ({"cooldown": 9, "t_max": 2}, ".......", "F--T--T"),
    "period": ({"trigger": "period", "period": 3}, "-" * 10, "F--p--p--p"),
    "period of one": ({"trigger": "period", "period": 1}, "-" * 4, "Fppp"),
    "period takes no notice of text": ({"trigger": "period", "period": 4}, "-.BS.....", "F---p---p"),
    "period under a shorter cap": ({"trigger": "period", "period": 9, "t_max": 2}, "-" * 7, "F--T--T"),
    "never": ({"trigger": "never"}, "-.BS.", "F----"),
    "never but t_max": ({"trigger": "never", "t_max": 4}, ".........", "F----T---"),
}


@pytest.mark.parametrize(("over", "marks", "expected"), CASES.values(), ids=CASES.keys())
def test_rules(over, marks, expected):
    assert letters(schedule(settings(**over), events(marks))) == expected


def test_drift_fires_above_its_threshold():
    drifts = [None, 0.1, 0.3, 0.31, 0.1, None, 2.0]
    made = schedule(settings(trigger="drift", drift_threshold=0.3), [None] * 7, drifts)
    assert letters(made) == "F--d--d"


def test_drift_is_capped_too():
    assert letters(schedule(settings(trigger="drift", t_max=2), [None] * 7, [0.0] * 7)) == "F--T--T"


def test_drift_that_is_not_a_number_does_not_fire():
    assert letters(schedule(settings(trigger="drift"), [None] * 3, [float("nan")] * 3)) == "F--"


def intervals(reasons) -> list[int]:
    slow = [i for i, reason in enumerate(reasons) if reason]
    return [later - earlier for earlier, later in pairwise(slow)]


def test_random_intervals_are_uniform_with_the_period_as_mean():
    made = schedule(settings(trigger="random", period=8, seed=3), [None] * 40_000)
    gaps = intervals(made)
    assert set(gaps) == set(range(1, 16)), "intervals from 1 to 2 * period - 1"
    assert abs(sum(gaps) / len(gaps) - 8) < 0.3, sum(gaps) / len(gaps)
    counts = [gaps.count(gap) for gap in range(1, 16)]
    assert max(counts) < 1.4 * min(counts), counts


def test_random_depends_on_the_seed_alone():
    first = schedule(settings(trigger="random", period=8, seed=1), [None] * 500)
    again = schedule(settings(trigger="random", period=8, seed=1), events("." * 500))
    other = schedule(settings(trigger="random", period=8, seed=2), [None] * 500)
    assert first == again
    assert first != other


def test_random_stays_under_the_cap():
    made = schedule(settings(trigger="random", period=20, t_max=5), [None] * 2000)
    assert max(intervals(made)) == 6  # five fast steps between
    assert {"random", "t_max"} < set(made)


@pytest.mark.parametrize("trigger", POLICIES)
def test_reset_begins_anew_and_answers_repeat(trigger):
    refresher = Refresher(settings(trigger=trigger, t_max=30, cooldown=3))
    steps = events("-.-..S-B--.----.-.-------" * 4)
    runs = []
    for _ in range(2):
        runs.append([refresher.next(event, i % 7 / 10) for i, event in enumerate(steps)])
        refresher.reset()
    assert runs[0] == runs[1]
    assert runs[0][0] == "first"
    assert runs[0] == schedule(refresher.settings, steps, [i % 7 / 10 for i in range(len(steps))])
    assert "first" not in runs[0][1:]


def test_a_refresh_of_the_caller_restarts_the_clock():
    refresher = Refresher(settings(t_max=3, min_gap=2))
    answers = []
    for i, event in enumerate(events("----.------")):
        answers.append(refresher.next(event))
        if i == 3:
            refresher.note_refresh()
            assert refresher.fast_steps == 0
    assert letters(answers) == "F------T---"


def test_fast_steps_are_counted():
    refresher = Refresher(settings())
    assert refresher.fast_steps == 0
    for expected in (0, 1, 2):
        refresher.next(None)
        assert refresher.fast_steps == expected


def test_every_policy_runs_without_events():
    for trigger in POLICIES:
        assert schedule(settings(trigger=trigger), [None, None])[0] == "first"


def test_t_max_holds_for_every_policy():
    steps = events("-.---S--.-" * 30)
    for trigger in POLICIES:
        made = schedule(settings(trigger=trigger, t_max=5, period=50, cooldown=20), steps, [0.0] * len(steps))
        assert max(intervals(made)) <= 6, trigger


def test_policies_are_the_values_that_settings_allow():
    for trigger in POLICIES:
        assert Settings.paper(trigger=trigger).trigger == trigger
        Refresher(Settings.released(trigger=trigger))
    with pytest.raises(SfiError, match=re.escape(f"allowed: {' | '.join(POLICIES)}")):
        Settings.paper(trigger="punctuation")


NEW_POLICY = '''"""Slow every other step."""

from sfi_lab.trigger.policy import Policy, Step


class OftenPolicy(Policy):
    """Fires two steps after a slow one."""

    def due(self, step: Step) -> bool:
        return step.gap >= 2
'''
ADDED = """
from sfi_lab.cli import parser
from sfi_lab.cli.options import settings_from
from sfi_lab.trigger import Refresher

arguments = ["generate", "--prompt-file", "p", "--trigger", "often", "--t-max", "0"]
refresher = Refresher(settings_from(parser().parse_args(arguments)))
print([refresher.next(None) for _ in range(5)])
"""


def test_a_new_policy_is_one_file_and_one_line(tmp_path):
    """As docs/extending.md says, in a copy of the library: settings, command line and refresher know it."""
    library = Path(sfi_lab.__file__).parent
    shutil.copytree(library, tmp_path / "sfi_lab", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "sfi_lab" / "trigger" / "often.py").write_text(NEW_POLICY, encoding="utf-8")
    table = tmp_path / "sfi_lab" / "settings" / "fields.py"
    last = '        "never": "never.NeverPolicy",\n'
    source = table.read_text(encoding="utf-8")
    assert source.count(last) == 1
    table.write_text(source.replace(last, last + '        "often": "often.OftenPolicy",\n'), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ADDED], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "['first', None, 'often', None, 'often']"


def test_bad_input_is_named():
    with pytest.raises(SfiError, match=f"trigger must be one of {', '.join(POLICIES)}, got 'often'"):
        Refresher(settings(trigger="often"))
    with pytest.raises(SfiError, match="fire_on must be one of boundary, next_sentence, got 'middle'"):
        Refresher(settings(fire_on="middle"))
