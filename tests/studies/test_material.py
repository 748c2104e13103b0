"""What studies run on: names, counts and lengths."""

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.studies import gather
from sfi_lab.text import prompt
from sfi_lab.text.prompts import prompts_folder


def test_every_kind_of_material(tiny_lab, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("A short text of one's own. " * 3)
    found = gather(tiny_lab, f"story_ferry,pydoc:3,tasks:2,single_needle:900:7,{own}", prompt_tokens=600, new_tokens=40)
    by_name = {m.name: m for m in found}
    assert list(by_name) == [
        "story_ferry",
        "pydoc-0",
        "pydoc-1",
        "pydoc-2",
        "single_needle-600-0",
        "multi_needle-600-0",
        "single_needle-900-7",
        "own",
    ]
    assert len(by_name["story_ferry"].ids) == 600, "a long prompt keeps its end"
    documents = [by_name[f"pydoc-{i}"] for i in range(3)]
    assert all(len(d.ids) == 600 and len(d.given) == 40 for d in documents)
    assert len({d.ids for d in documents}) == 3
    assert len(by_name["single_needle-900-7"].ids) <= 900
    assert by_name["multi_needle-600-0"].task.answers[0] in tiny_lab.tokenizer.decode(by_name["multi_needle-600-0"].ids)
    assert gather(tiny_lab, "pydoc:3", 600, 40) == documents, "the same words must name the same texts"


def test_the_file_of_a_project_prompt_is_read_without_its_header(tiny_lab):
    file = prompts_folder() / "story_ferry.md"
    (found,) = gather(tiny_lab, str(file), prompt_tokens=100_000)
    assert found.ids == tuple(tiny_lab.tokenizer(prompt("story_ferry").text)["input_ids"])


@pytest.mark.parametrize(
    ("what", "message"),
    [("nowhere", "'nowhere' is no prompt; allowed: project"), ("pydoc", "needs a number from 1, as in pydoc:6"), ("tasks:0", "needs a number"),
     ("single_needle:x", "is not a task"), (" , ", "no prompt was named")],
)  # fmt: skip
def test_wrong_names_are_answered_with_the_right_ones(tiny_lab, what, message):
    with pytest.raises(SfiError, match=message):
        gather(tiny_lab, what)


def test_a_sweep_is_every_kind_at_every_length(tiny_lab):
    found = gather(tiny_lab, "sweep:900:1300")
    assert len(found) == 8
    assert {(m.task.kind, m.task.length) for m in found} == {
        (kind, n)
        for n in (900, 1300)
        for kind in ("single_needle", "multi_needle", "variable_tracking", "common_words")
    }
