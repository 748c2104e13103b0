"""Generated retrieval tasks: deterministic, of the asked length, answerable from their text alone, scored exactly."""

import re

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.tasks import KINDS, Haystack, Task, make, score, sweep


@pytest.fixture(scope="module")
def hay():
    return Haystack()


def by_rule(task: Task) -> set[str]:
    """The answers as a reader with perfect memory would find them."""
    text, _, question = task.prompt.rpartition("\n\n")
    if "needle" in task.kind:
        place = re.search(r"number of (\w+) House is$", question)[1]
        return set(re.findall(rf"The special number of {place} House is (\d+)\.", text))
    if task.kind == "variable_tracking":
        value = re.search(r"hold the value (\d+) in", question)[1]
        holding = set(re.findall(rf"VAR (\w+) = {value}\.", text))
        for a, b in re.findall(r"VAR (\w+) = VAR (\w+)\.", text):
            holding |= {a} if b in holding else set()
        return holding
    words = re.findall(r"Word number \d+: (\w+)\.", text)
    return {word for word in words if words.count(word) == max(map(words.count, words))}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [300, 777, 1500])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_text_holds_the_answers_and_no_others(hay, kind, length, seed):
    task = make(kind, length, seed, haystack=hay)
    assert by_rule(task) == set(task.answers)
    assert length * 0.8 < len(task.prompt.split()) <= length
    assert task == make(kind, length, seed, haystack=hay), "the same seed must give the same task"
    assert task.prompt != make(kind, length, seed + 100, haystack=hay).prompt
    assert all(0 <= depth < 1 for depth in task.depths)


def test_needles_lie_everywhere(hay):
    depths = [make("single_needle", 400, seed, haystack=hay).depths[0] for seed in range(40)]
    assert min(depths) < 0.2
    assert max(depths) > 0.75


def test_score_counts_whole_answers():
    task = Task("multi", 1, 0, "", ("123456", "AB"), (), 8)
    assert score(task, " 123456, and AB.") == 1.0
    assert score(task, "1234567 AB") == 0.5
    assert score(task, "CAB 0123456") == 0.0


def test_sweep_is_a_grid():
    tasks = sweep(["single_needle", "common_words"], [300, 600], [0, 5])
    assert len({task.name for task in tasks}) == 8
    assert {(t.kind, t.length, t.seed) for t in tasks} == {
        (k, n, s) for k in ("single_needle", "common_words") for n in (300, 600) for s in (0, 5)
    }


def test_impossible_tasks_are_refused_in_words(hay):
    with pytest.raises(SfiError, match="unknown task 'needles'; allowed: single_needle"):
        make("needles", 500)
    with pytest.raises(SfiError, match="too short for this task's 37 facts"):
        make("common_words", 100, haystack=hay)
    with pytest.raises(SfiError, match="longer than the documentation"):
        make("single_needle", 10_000_000, haystack=hay)
