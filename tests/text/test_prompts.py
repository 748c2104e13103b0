"""The prompts of the project, and how they are found."""

import re
from itertools import combinations
from pathlib import Path

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.text import prompt, prompt_names, prompt_text
from sfi_lab.text import prompts as module

NAMES = prompt_names()
KINDS = {
    "story",
    "argument",
    "code review",
    "recipe",
    "dialogue",
    "technical report",
    "bug report",
    "meeting notes",
    "letter",
}


def words(text: str) -> list[str]:
    return re.findall(r"[\u4e00-\u9fff]|[^\W_]+", text)


def test_there_are_at_least_twelve_of_many_kinds():
    found = [prompt(name) for name in NAMES]
    assert len(NAMES) >= 12
    assert list(NAMES) == sorted(NAMES)
    assert {p.kind for p in found} >= KINDS
    assert {p.language for p in found} == {"en", "de", "zh"}


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt(name):
    made = prompt(name)
    assert made.name == name
    assert 400 <= len(words(made.text)) <= 1600, len(words(made.text))
    assert made.text == made.text.strip()
    assert not made.text.startswith("---")
    assert made.text.endswith((".", "。"))
    assert "\ufffd" not in made.text
    assert "\t" not in made.text
    instruction = made.text.split("\n\n")[-1]
    assert len(words(instruction)) >= 30, f"the last paragraph is the instruction: {instruction!r}"


def test_no_sentence_is_used_twice():
    sentences = {name: set(re.findall(r"[^.?!。？！\n]{40,}", prompt(name).text)) for name in NAMES}
    for first, second in combinations(NAMES, 2):
        assert not sentences[first] & sentences[second], (first, second)


def test_an_unknown_name_is_answered_with_the_names():
    with pytest.raises(SfiError, match=f"no prompt 'nonesuch'.*{NAMES[0]}.*{NAMES[-1]}"):
        prompt("nonesuch")
    with pytest.raises(SfiError, match="no prompt"):
        prompt("../results/anything")


def test_the_environment_names_another_folder(tmp_path: Path, monkeypatch):
    (tmp_path / "prompts").mkdir()
    text = "---\nkind: note\nlanguage: en\n---\n\nOne line.\n---\nAnother: line.\n\n"
    (tmp_path / "prompts" / "mine.md").write_text(text, encoding="utf-8")
    monkeypatch.setenv("SFI_LAB_DATA", str(tmp_path))
    assert prompt_names() == ("mine",)
    assert prompt("mine") == module.Prompt("mine", "One line.\n---\nAnother: line.", "note", "en")


@pytest.mark.parametrize("source", ["just text", "---\nkind: x\n---\ntext", "---\nkind: x\nlanguage: en\ntext", ""])
def test_a_bad_header_is_refused(tmp_path: Path, monkeypatch, source):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "bad.md").write_text(source, encoding="utf-8")
    monkeypatch.setenv("SFI_LAB_DATA", str(tmp_path))
    with pytest.raises(SfiError, match="prompt bad must begin with"):
        prompt("bad")


@pytest.mark.parametrize(
    "source",
    [
        "just text\n",
        "---\nA rule above.\n",
        "---\nA rule above.\n---\nAnd one below.",
        "---\nkind: x\n---\ntext",
        "---\ntitle: a page\nlanguage: en\n---\ntext",
        "---\nkind: x\nlanguage: en\ntitle: three\n---\ntext",
        "---\nkind: x\nlanguage: en\n\n---\ntext",
        "---\nkind: x\nlanguage: \n---\ntext",
        " ---\nkind: x\nlanguage: en\n---\ntext",
    ],
)
def test_a_text_of_ones_own_stays_as_it_is(source):
    assert prompt_text(source) == source


def test_a_prompt_files_text_is_the_prompts():
    for name in NAMES:
        source = (module.prompts_folder() / f"{name}.md").read_text(encoding="utf-8")
        assert prompt_text(source) == prompt(name).text


def test_a_wrong_folder_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SFI_LAB_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(SfiError, match=r"SFI_LAB_DATA is .*nowhere.*no folder"):
        prompt_names()


def test_an_install_without_the_repository_is_explained(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("SFI_LAB_DATA", raising=False)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "site-packages" / "sfi_lab" / "text" / "prompts.py"))
    with pytest.raises(SfiError, match=r"kept in the repository.*pip install -e \..*SFI_LAB_DATA"):
        prompt_names()
