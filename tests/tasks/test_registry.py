"""Names become task sources; sources keep the harness's API; given text is cut into prompt and continuation."""

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.tasks import GENERATED, NAMES, Haystack, TaskSource, accuracy_by, make, parse_tasks
from sfi_lab.tasks.given_text import CONTINUED, fitting
from sfi_lab.tasks.haystack import words


def test_every_generated_name_is_reached():
    names = [name for name in GENERATED if name not in ("multi_needle",)] + ["multi_key", "single_needle@0.25"]
    found = parse_tasks(" , ".join(names))
    assert [source.name for source in found] == names
    assert {"single_needle", "multi_key", "fact_qa", "long_story"} <= set(NAMES)
    hay = Haystack()
    for source in found:
        assert isinstance(source, TaskSource) and source.generated
        tasks = source.tasks([300, 450], 2, 5, words)
        assert [(t.length, t.seed) for t in tasks] == [(300, 5), (300, 6), (450, 5), (450, 6)]
        assert len({t.name for t in tasks}) == 4 and {t.kind for t in tasks} == {source.name}
        assert all(len(t.prompt.split()) <= t.length for t in tasks)
    assert found[0].tasks([300], 1, 5, words) == [make(names[0], 300, 5, haystack=hay)]


def test_a_name_said_twice_is_one_source():
    assert [source.name for source in parse_tasks("fact_qa,multi_value,fact_qa")] == ["fact_qa", "multi_value"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("single_needle,nope", r"'nope' is no task; allowed: single_needle, multi_key, .*longbench:SUBSET"),
        (" , ", "no task was named; allowed: single_needle"),
        ("single_needle@two", "the depth is a number from 0 to 1, as in single_needle@0.25"),
        ("single_needle@1.2", "the depth is a number from 0 to 1"),
        ("longbench", "'longbench' is no task"),
        ("longbench:poems", "LongBench has no subset 'poems'; allowed: narrativeqa"),
        ("mmlu:", "'mmlu:' is no task"),
        ("perplexity:/nowhere.txt", r"there is no file /nowhere\.txt; allowed: a text file, or pydoc"),
    ],
)
def test_wrong_names_are_answered_with_the_right_ones(names, message):
    with pytest.raises(SfiError, match=message):
        parse_tasks(names)


def test_a_generated_source_is_made_to_order():
    with pytest.raises(SfiError, match="needs a number of tasks from 1, not 0"):
        parse_tasks("fact_qa")[0].tasks([300], 0, 0, words)


def test_given_text_is_a_prompt_and_what_follows_it(tmp_path):
    paragraphs = ["\n".join(f"p{i}w{j}" for j in range(50)) for i in range(40)]
    text = "\n\n".join(paragraphs)
    file = tmp_path / "own.txt"
    file.write_text(text)
    (source,) = parse_tasks(f"perplexity:{file}")
    tasks = source.tasks([100, 333], 3, 0, words)
    assert source.generated and source.name == f"perplexity:{file}"
    assert len({task.name for task in tasks}) == 6 and len({task.prompt for task in tasks}) > 3
    for task in tasks:
        assert task.scoring == "perplexity" and task.kind == source.name
        assert task.prompt + task.continuation in text, "the continuation is what really follows"
        assert (words(task.prompt), words(task.continuation)) == (task.length, CONTINUED)
        assert task.prompt.startswith("p") and "w0\n" in task.prompt[:8], "it begins with a paragraph"
    assert tasks == source.tasks([100, 333], 3, 0, words)
    with pytest.raises(SfiError, match=r"own\.txt is too short for a prompt of 1900 and 256 more"):
        source.tasks([1900], 1, 0, words)


def test_fitting_counts_the_joined_pieces():
    assert fitting(["a", " b", " c"], 2, words) == 2
    assert fitting(["a", " b"], 9, words) == 2
    assert fitting([], 9, words) == 0
    assert fitting(["word", " longer"], 9, len) == 1, "in characters"


def test_accuracy_by_a_label_none_has():
    task = make("fact_qa", 300)
    assert accuracy_by([task], [1.0], "subject") == {}
    with pytest.raises(SfiError, match="1 tasks need as many scores; got 2"):
        accuracy_by([task], [1.0, 0.0], "hops")
