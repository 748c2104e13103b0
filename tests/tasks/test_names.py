"""Names of sources and tasks: a name is one thing, a thing has one name, and no two tasks share theirs."""

import json

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.tasks import parse_tasks
from sfi_lab.tasks.haystack import words


def named(names, data=None):
    return [source.name for source in parse_tasks(names, data)]


def made(names, lengths=(60,), data=None):
    return [task for source in parse_tasks(names, data) for task in source.tasks(lengths, 2, 0, words)]


def text_file(path, first):
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n\n".join(f"{first} " + " ".join(f"p{i}w{j}" for j in range(60)) for i in range(12)))
    return path


def test_two_names_of_one_kind_are_one_source():
    assert named("multi_needle,multi_key,fact_qa") == ["multi_key", "fact_qa"]
    assert named("multi_needle") == ["multi_key"], "the name that results have"
    assert named("single_needle@0.50,single_needle@.5,single_needle@-0,single_needle@0") == [
        "single_needle@0.5",
        "single_needle@0",
    ]
    (source,) = parse_tasks("single_needle@0.1234567")
    (task,) = source.tasks([400], 1, 0, words)
    assert task.kind == source.name == "single_needle@0.123457"


@pytest.mark.parametrize("name", ["fact_qa", "perplexity"])
def test_a_length_given_twice_counts_once(tmp_path, name):
    if name == "perplexity":
        name = f"perplexity:{text_file(tmp_path / 'a.txt', 'one')}"
    lengths = (300, 200, 300)
    assert [(task.length, task.seed) for task in made(name, lengths)] == [(300, 0), (300, 1), (200, 0), (200, 1)]


def test_files_that_differ_give_tasks_that_differ(tmp_path):
    one, other = text_file(tmp_path / "x" / "a.txt", "one"), text_file(tmp_path / "x" / "a.md", "two")
    third = text_file(tmp_path / "y" / "a.txt", "three")
    copy = text_file(tmp_path / "y" / "copy.txt", "one")
    found = made(
        ",".join(f"perplexity:{path}" for path in (one, other, third, copy, tmp_path / "y" / ".." / "x" / "a.txt"))
    )
    assert len({task.name for task in found}) == len({task.prompt for task in found}) == len(found) == 6
    assert {task.kind for task in found} == {f"perplexity:{path}" for path in (one, other, third)}, "copies count once"
    assert all(task.name.startswith("perplexity-a-") for task in found)
    assert [task.name for task in made(f"perplexity:{one}")] == [task.name for task in found[:2]], (
        "stable between calls"
    )
    text_file(one, "changed")
    again = made(f"perplexity:{one}")[0]
    assert again.name == found[0].name and again.fingerprint != found[0].fingerprint, "another text is another task"
    assert made("perplexity:pydoc")[0].name == "perplexity-pydoc-60-0"
    one.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(SfiError, match=r"a\.txt can't be read as UTF-8 text"):
        parse_tasks(f"perplexity:{one}")


def test_a_part_of_a_data_set_has_names_of_its_own(tmp_path):
    row = {
        "_id": "x1", "domain": "Code", "sub_domain": "s", "difficulty": "hard", "length": "short", "question": "?", "choice_A": "a",
        "choice_B": "b", "choice_C": "c", "choice_D": "d", "answer": "B", "context": "text",
    }  # fmt: skip
    (tmp_path / "data.json").write_text(json.dumps([row]))
    for split, n in (("dev", 5), ("test", 2)):
        (tmp_path / split).mkdir()
        (tmp_path / split / f"law_{split}.csv").write_text("q?,w,x,y,z,A\n" * n)
    names = "longbench_v2,longbench_v2:hard,longbench_v2:short,mmlu,mmlu:law"
    found = [task for source in parse_tasks(names, tmp_path) for task in source.tasks((512,), 0, 0, words)]
    assert [task.name for task in found] == [
        *("longbench_v2-x1", "longbench_v2:hard-x1", "longbench_v2:short-x1"),
        *("mmlu-law-0", "mmlu-law-1", "mmlu:law-0", "mmlu:law-1"),
    ]
    assert [task.metric for task in found] == ["stated_choice"] * 3 + ["letter"] * 4
    with pytest.raises(SfiError, match="longbench_v2:easy: no row has difficulty 'easy'"):
        parse_tasks("longbench_v2:easy", tmp_path)[0].tasks((512,), 0, 0, words)
