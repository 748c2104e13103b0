"""Published data sets, read from small files of the distributed formats made here."""

import json
import re
import types
import zipfile

import polars as pl
import pytest

from sfi_lab.errors import SfiError
from sfi_lab.tasks import accuracy_by, parse_tasks, score
from sfi_lab.tasks.datasets import rows as rows_module
from sfi_lab.tasks.datasets.longbench_subsets import SUBSETS
from sfi_lab.tasks.datasets.prompts import cut_middle, fill
from sfi_lab.tasks.haystack import words


class Words:
    """A tokenizer whose tokens are words with the space before them."""

    def __init__(self):
        self.known = {}

    def __call__(self, text, **_):
        return {"input_ids": [self.known.setdefault(word, len(self.known)) for word in re.findall(r"\s*\S+", text)]}

    def decode(self, ids, **_):
        words = list(self.known)
        return "".join(words[i] for i in ids)


def write_jsonl(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n", encoding="utf-8")


def longbench_row(i, **over):
    return {
        "input": f"Who is number {i}?", "context": f"Number {i} is Ada\u2028Lovelace.", "answers": ["Ada", "Lovelace"], "length": 4000 + i,
        "dataset": "hotpotqa", "language": "en", "all_classes": None, "_id": f"id{i}", **over,
    }  # fmt: skip


def tasks(name, data, n=0, seed=0, templates=None, **more):
    (source,) = parse_tasks(name, data, templates)
    return source.tasks([512], n, seed, words, **more)


def test_longbench_from_files(tmp_path):
    write_jsonl(tmp_path / "longbench" / "hotpotqa.jsonl", [longbench_row(i) for i in range(5)])
    found = tasks("longbench:hotpotqa", tmp_path)
    assert [task.name for task in found] == [f"longbench:hotpotqa-id{i}" for i in range(5)]
    task = found[2]
    assert task.prompt.index("Number 2 is Ada\u2028Lovelace.") < task.prompt.index(
        "Question: Who is number 2?\nAnswer:"
    )
    assert task.prompt.endswith("Answer:") and (task.length, task.max_new_tokens, task.chat) == (0, 32, True)
    assert score(task, " the Lovelace") == 1.0
    assert dict(task.labels) == {"language": "en", "length": "4-8k"}
    some = tasks("longbench:hotpotqa", tmp_path, n=2, seed=3)
    assert len(some) == 2 and some == tasks("longbench:hotpotqa", tmp_path, n=2, seed=3)
    assert [t.name for t in some] == sorted(t.name for t in some)


def test_longbench_from_its_archive_and_classes(tmp_path):
    row = longbench_row(
        1,
        context="Question: How far?\nType: Distance\n",
        input="Question: How old?\nType:",
        answers=["Age"],
        all_classes=["Age", "Distance"],
    )
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("data/trec.jsonl", json.dumps(row))
    (task,) = tasks("longbench:trec", tmp_path)
    assert not task.chat and task.first_line and task.prompt.endswith("Type: Distance\n\nQuestion: How old?\nType:")
    assert score(task, "\nAge\nDistance") == 1.0
    assert score(task, " Age or Distance") == 0.5
    with pytest.raises(SfiError, match=r"has no readable data/triviaqa\.jsonl"):
        tasks("longbench:triviaqa", tmp_path)


def test_longbench_table_is_the_papers():
    assert len(SUBSETS) == 21
    metrics = {name: subset.metric for name, subset in SUBSETS.items()}
    assert sorted(name for name in metrics if metrics[name] == "rouge_l") == [
        "gov_report",
        "multi_news",
        "qmsum",
        "samsum",
    ]
    assert sorted(name for name in metrics if metrics[name] == "qa_f1") == sorted(
        ["narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "musique", "triviaqa"]
    )
    assert {name for name, subset in SUBSETS.items() if subset.first_line} == {"trec", "triviaqa", "samsum", "lsht"}
    assert {name: s.max_new_tokens for name, s in SUBSETS.items() if s.max_new_tokens not in (32, 64)} == {
        "narrativeqa": 128, "qasper": 128, "dureader": 128, "samsum": 128, "gov_report": 512, "qmsum": 512, "multi_news": 512, "vcsum": 512,
    }  # fmt: skip
    for name, subset in SUBSETS.items():
        asks = "{input}" in subset.template
        assert asks == (name not in ("gov_report", "multi_news", "vcsum", "passage_count", "lcc")), name
        assert subset.template.count("{context}") == 1, name


def test_chinese_subsets_need_segmentation(tmp_path, monkeypatch):
    write_jsonl(tmp_path / "dureader.jsonl", [longbench_row(0)])
    monkeypatch.setattr("sfi_lab.tasks.segmentation.importlib.util.find_spec", lambda name: None)
    with pytest.raises(SfiError, match="longbench:dureader counts Chinese words, which needs jieba"):
        parse_tasks("longbench:dureader", tmp_path)


def test_long_prompts_are_cut_in_the_middle(tmp_path):
    long = " ".join(f"w{i}" for i in range(1000))
    write_jsonl(tmp_path / "hotpotqa.jsonl", [longbench_row(0, context=long)])
    (task,) = tasks("longbench:hotpotqa", tmp_path, tokenizer=Words(), limit=300)
    assert len(task.prompt.split()) == 300 - 32
    assert task.prompt.startswith("Use the passages below") and task.prompt.endswith(
        "Question: Who is number 0?\nAnswer:"
    )
    (whole,) = tasks("longbench:hotpotqa", tmp_path, tokenizer=Words(), limit=5000)
    assert long in whole.prompt
    with pytest.raises(SfiError, match="needs the model's tokenizer"):
        tasks("longbench:hotpotqa", tmp_path, limit=300)
    with pytest.raises(
        SfiError,
        match="no room for a prompt: its answer may take 32 of the model's 40 positions, and 8 are left; 32 are",
    ):
        tasks("longbench:hotpotqa", tmp_path, tokenizer=Words(), limit=40)
    assert cut_middle("a b c d e f g", 4, Words()) == "a b f g"
    assert cut_middle("a b c d e", 5, Words()) == "a b c d e"


V2_ROW = {
    "_id": "x1", "domain": "Code", "sub_domain": "s", "difficulty": "hard", "length": "short", "question": "Which {one}? ",
    "choice_A": "red", "choice_B": "green", "choice_C": "blue", "choice_D": "$Q$", "answer": "B", "context": " Much text. ",
}  # fmt: skip


def test_longbench_v2(tmp_path):
    (tmp_path / "longbench_v2").mkdir()
    all_rows = [V2_ROW, {**V2_ROW, "_id": "x2", "difficulty": "easy", "length": "long", "answer": "D"}]
    (tmp_path / "longbench_v2" / "data.json").write_text(json.dumps(all_rows))
    hard, easy = tasks("longbench_v2", tmp_path)
    assert "<text>\nMuch text.\n</text>" in hard.prompt and "Which {one}?\n" in hard.prompt
    assert "\n(A) red\n(B) green\n(C) blue\n(D) $Q$\n" in hard.prompt, "what is filled in is not filled again"
    assert (hard.max_new_tokens, hard.chat) == (128, True)
    scores = [score(hard, "The correct answer is (B)"), score(easy, "D")]
    assert scores == [1.0, 0.0]
    assert accuracy_by([hard, easy], scores, "difficulty") == {"easy": (0.0, 1), "hard": (1.0, 1)}
    assert accuracy_by([hard, easy], scores, "length") == {"long": (0.0, 1), "short": (1.0, 1)}
    assert [task.name for task in tasks("longbench_v2:easy", tmp_path)] == ["longbench_v2:easy-x2"]
    with pytest.raises(SfiError, match="no part 'huge'; allowed: easy, hard, short, medium, long"):
        parse_tasks("longbench_v2:huge", tmp_path)


def test_ones_own_templates(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps([V2_ROW]))
    write_jsonl(tmp_path / "hotpotqa.jsonl", [longbench_row(0)])
    own = tmp_path / "templates.json"
    own.write_text(json.dumps({"longbench_v2": "$DOC$|$Q$|$C_A$|$C_D$", "hotpotqa": "{input}{x y}{context}"}))
    assert tasks("longbench_v2", tmp_path, templates=own)[0].prompt == "Much text.|Which {one}?|red|$Q$"
    assert tasks("longbench:hotpotqa", tmp_path, templates=own)[0].prompt.startswith("Who is number 0?{x y}Number 0")
    own.write_text(json.dumps({"longbench_v2": "$Q$", "hotpot_qa": "{input}"}))
    with pytest.raises(
        SfiError, match=r"has 'hotpot_qa', which no task is called; allowed: narrativeqa, .*, mmlu:question"
    ):
        parse_tasks("longbench_v2", tmp_path, own)
    own.write_text('["text"]')
    with pytest.raises(SfiError, match="must be one JSON object"):
        parse_tasks("longbench_v2", tmp_path, own)
    with pytest.raises(SfiError, match=r"the template of mmlu asks for \{year\}; allowed: subject"):
        fill("{year}", {"subject": "law"}, "mmlu")


def test_gpqa_options_are_shuffled_by_the_seed(tmp_path):
    heading = "Record ID,Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3,High-level domain,Subdomain\n"
    lines = [f'r{i},"What, then,\nis {i}?",right{i},one,two,three,Physics,Optics\n' for i in range(12)]
    (tmp_path / "gpqa_diamond.csv").write_text(heading + "".join(lines))
    found = tasks("gpqa_diamond", tmp_path, seed=1)
    assert len(found) == 12 and found == tasks("gpqa_diamond", tmp_path, seed=1)
    for i, task in enumerate(found):
        assert f"({task.answers[0]}) right{i}\n" in task.prompt and f"What, then,\nis {i}?" in task.prompt
        assert score(task, f"The correct answer is ({task.answers[0]}).") == 1.0
    assert len({task.answers for task in found}) > 1, "the right option must not always stand in one place"
    other = tasks("gpqa_diamond", tmp_path, seed=2)
    assert [t.answers for t in other] != [t.answers for t in found]
    reasoned = tasks("gpqa_diamond:cot", tmp_path, n=1)[0]
    assert reasoned.max_new_tokens == 1024 and "step by step" in reasoned.prompt
    assert dict(reasoned.labels) == {"domain": "Physics", "subdomain": "Optics"}


def mmlu_folder(root, subjects=("law", "abstract_algebra")):
    for split, n in (("dev", 6), ("test", 3)):
        (root / split).mkdir(parents=True)
        for subject in subjects:
            text = "".join(f'"{subject} {split} {i}, what?",w{i},x,y,z,{"ABCD"[i % 4]}\n' for i in range(n))
            (root / split / f"{subject}_{split}.csv").write_text(text)


def test_mmlu_has_five_examples_from_dev(tmp_path):
    mmlu_folder(tmp_path / "mmlu" / "data")
    found = tasks("mmlu", tmp_path)
    assert [task.name for task in found] == [f"mmlu-{s}-{i}" for s in ("abstract_algebra", "law") for i in range(3)]
    task = found[1]
    assert "questions on abstract algebra" in task.prompt
    assert re.findall(r"Answer: ([A-D])\n\n", task.prompt) == list("ABCDA")
    assert "dev 5" not in task.prompt
    assert task.prompt.endswith("abstract_algebra test 1, what?\nA. w1\nB. x\nC. y\nD. z\nAnswer:")
    assert (score(task, " B\n\n"), score(task, " A"), task.chat) == (1.0, 0.0, False)
    assert accuracy_by(found, [1, 1, 0, 0, 0, 0], "subject") == {
        "abstract_algebra": (pytest.approx(2 / 3), 3),
        "law": (0.0, 3),
    }
    assert [task.name for task in tasks("mmlu:law", tmp_path)] == ["mmlu:law-0", "mmlu:law-1", "mmlu:law-2"]
    with pytest.raises(SfiError, match="no MMLU subject 'chess'; it has: abstract_algebra, law"):
        parse_tasks("mmlu:chess", tmp_path)


def test_mmlu_from_the_hubs_parquet_files(tmp_path):
    for split, n in (("dev", 5), ("test", 2)):
        rows = [
            {"question": f"{split} {i}?", "subject": "law", "choices": ["p", "q", "r", "s"], "answer": 2}
            for i in range(n)
        ]
        (tmp_path / "mmlu" / "law").mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows).write_parquet(tmp_path / "mmlu" / "law" / f"{split}-00000-of-00001.parquet")
    found = tasks("mmlu:law", tmp_path)
    assert [task.answers for task in found] == [("C",), ("C",)]
    assert found[1].prompt.count("Answer: C") == 5 and found[1].prompt.endswith(
        "test 1?\nA. p\nB. q\nC. r\nD. s\nAnswer:"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("longbench:qasper", r"LongBench's qasper is not here: .* has no data\.zip and no qasper\.jsonl\. Put data\.zip .* \(from THUDM/LongBench on"),
        ("longbench_v2", r"LongBench V2 is not here: .* Put data\.json as longbench_v2/data\.json"),
        ("gpqa_diamond", r"GPQA-Diamond is not here: .* gpqa/gpqa_diamond\.csv .*Idavidrein/gpqa .*terms"),
        ("mmlu", r"MMLU is not here: .* mmlu/test/SUBJECT_test\.csv"),
    ],
)  # fmt: skip
def test_a_missing_data_set_says_how_to_get_it(tmp_path, monkeypatch, name, said):
    with pytest.raises(SfiError, match=said) as refused:
        parse_tasks(name, tmp_path)
    assert "pip install '.[datasets]' in the project's folder" in str(refused.value)
    monkeypatch.setattr(rows_module.importlib.util, "find_spec", lambda module: None)
    with pytest.raises(SfiError, match="no data folder was given"):
        parse_tasks(name)


def test_the_hub_is_asked_as_datasets_wants_it(monkeypatch):
    asked = []

    def load_dataset(*names, split, **options):
        asked.append((names, split, options))
        if names == ("cais/mmlu", "law"):
            return [{"question": "q?", "choices": list("wxyz"), "answer": 1}] * 5
        if names == ("json",):
            return [longbench_row(7)]
        raise ConnectionError("no route\nto the hub")

    monkeypatch.setitem(__import__("sys").modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr(rows_module.importlib.util, "find_spec", lambda module: object())
    assert [task.answers for task in tasks("mmlu:law", None, n=1)] == [("B",)]
    assert tasks("longbench:hotpotqa", None)[0].name == "longbench:hotpotqa-id7"
    with pytest.raises(
        SfiError,
        match=r"GPQA-Diamond could not be loaded from Idavidrein/gpqa: ConnectionError: no route\. A local copy",
    ):
        tasks("gpqa_diamond", None)
    assert asked == [
        (("cais/mmlu", "law"), "test", {}),
        (("cais/mmlu", "law"), "dev", {}),
        (
            ("json",),
            "test",
            {"data_files": {"test": "zip://data/hotpotqa.jsonl::hf://datasets/THUDM/LongBench/data.zip"}},
        ),
        (("Idavidrein/gpqa", "gpqa_diamond"), "train", {}),
    ]


def test_broken_files_are_named(tmp_path):
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(SfiError, match=r"data\.json can't be read as json"):
        tasks("longbench_v2", tmp_path)
    (tmp_path / "data.json").write_text('[{"question": "?"}]')
    with pytest.raises(SfiError, match=r"data\.json, row 1 has no column 'choice_A'; it has: question"):
        tasks("longbench_v2", tmp_path)
