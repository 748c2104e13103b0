"""Bad data is refused in one sentence that names file, row and column."""

import json
import zipfile

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.tasks import parse_tasks

V2 = {
    "_id": "x1", "domain": "Code", "sub_domain": "s", "difficulty": "hard", "length": "short", "question": "?", "choice_A": "a",
    "choice_B": "b", "choice_C": "c", "choice_D": "d", "answer": "B", "context": "text",
}  # fmt: skip
V1 = {"input": "?", "context": "text", "answers": ["a"], "length": 3, "all_classes": None, "_id": "i"}


def refused(names, data, message):
    with pytest.raises(SfiError, match=message) as said:
        [source.tasks([512], 0, 0, len) for source in parse_tasks(names, data)]
    assert "\n" not in str(said.value), "one sentence"


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"context": None}, r"data\.json, row 2, column 'context' must be text, not null$"),
        ({"choice_C": 3}, r"row 2, column 'choice_C' must be text, not 3$"),
        ({"question": ["?"]}, r"row 2, column 'question' must be text, not \[\"\?\"\]$"),
        ({"answer": "E"}, r"row 2, column 'answer' must be one of A, B, C, D, not \"E\"$"),
        ({"_id": None}, r"row 2, column '_id' must be text, not null$"),
    ],
)
def test_longbench_v2(tmp_path, over, message):
    (tmp_path / "data.json").write_text(json.dumps([V2, {**V2, **over}]))
    refused("longbench_v2", tmp_path, message)


def test_rows_that_are_no_objects(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps([V2, "text"]))
    refused("longbench_v2", tmp_path, r"data\.json, row 2 must be an object with columns, not \"text\"$")
    (tmp_path / "data.json").unlink()
    (tmp_path / "data.parquet").write_bytes(b"PAR0")
    refused("longbench_v2", tmp_path, r"data\.parquet can't be read as parquet: ")


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"answers": "oops"}, r"hotpotqa\.jsonl, row 2, column 'answers' must be a list of one or more texts, not \"oops\"$"),
        ({"answers": []}, r"row 2, column 'answers' must be a list of one or more texts, not \[\]$"),
        ({"answers": [None]}, r"row 2, column 'answers' must be .* not \[null\]$"),
        ({"all_classes": "abc"}, r"row 2, column 'all_classes' must be a list of one or more texts, not \"abc\"$"),
        ({"length": "long"}, r"row 2, column 'length' must be a whole number from 0, not \"long\"$"),
        ({"input": None}, r"row 2, column 'input' must be text, not null$"),
        ({"context": "x" * 90, "input": 5}, r"row 2, column 'input' must be text, not 5$"),
    ],
)  # fmt: skip
def test_longbench(tmp_path, over, message):
    (tmp_path / "hotpotqa.jsonl").write_text("\n".join(json.dumps(row) for row in (V1, {**V1, **over})))
    refused("longbench:hotpotqa", tmp_path, message)


def test_longbench_classes_are_needed_to_classify(tmp_path):
    (tmp_path / "trec.jsonl").write_text(json.dumps(V1))
    refused("longbench:trec", tmp_path, r"trec\.jsonl, row 1, column 'all_classes' must be a list .* not null$")


def test_files_without_rows_and_broken_lines(tmp_path):
    (tmp_path / "musique.jsonl").write_text("\n")
    refused("longbench:musique", tmp_path, r"musique\.jsonl has no rows$")
    (tmp_path / "musique.jsonl").write_text(json.dumps(V1) + "\n{\n")
    refused("longbench:musique", tmp_path, r"musique\.jsonl can't be read as jsonl: row 2: ")
    (tmp_path / "musique.jsonl").unlink()
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("data/musique.jsonl", "")
    refused("longbench:musique", tmp_path, r"data\.zip, data/musique\.jsonl has no rows$")


def test_a_subset_that_is_not_there_is_named(tmp_path):
    for name in ("musique", "trec", "notes"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(V1))
    message = r"LongBench's lcc is not here: .* has musique\.jsonl, trec\.jsonl and no lcc\.jsonl\. Put data\.zip"
    refused("longbench:lcc", tmp_path, message)


@pytest.mark.parametrize(
    ("split", "line", "message"),
    [
        ("dev", "q?,w,x,y", r"law_dev\.csv, row 2 has more or fewer values than the columns question, A, B, C, D, answer$"),
        ("test", "q?,w,x,y,z,A,B", r"law_test\.csv, row 2 has more or fewer values"),
        ("dev", "q?,w,x,y,z,E", r"law_dev\.csv, row 2, column 'answer' must be one of A, B, C, D, not \"E\"$"),
        ("test", "", r"law_test\.csv has no rows$"),
    ],
)  # fmt: skip
def test_mmlu(tmp_path, split, line, message):
    for name in ("dev", "test"):
        (tmp_path / name).mkdir()
        rows = ["q?,w,x,y,z,A"] * 6
        if name == split:
            rows[1:2] = [line]
        (tmp_path / name / f"law_{name}.csv").write_text("" if name == split and not line else "\n".join(rows))
    refused("mmlu", tmp_path, message)


@pytest.mark.parametrize(("over", "column"), [({"choices": ["p", "q"]}, "choices"), ({"answer": 4}, "answer")])
def test_mmlu_of_the_hub(tmp_path, over, column):
    import polars as pl

    (tmp_path / "law").mkdir()
    row = {"question": "?", "subject": "law", "choices": ["p", "q", "r", "s"], "answer": 2}
    pl.DataFrame([row] * 5).write_parquet(tmp_path / "law" / "dev-0.parquet")
    pl.DataFrame([row, {**row, **over}]).write_parquet(tmp_path / "law" / "test-0.parquet")
    refused("mmlu:law", tmp_path, rf"test-0\.parquet, row 2, column '{column}' must be a ")


def test_gpqa(tmp_path):
    heading = "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3\n"
    (tmp_path / "gpqa_diamond.csv").write_text(heading + "q,r,a,b\n")
    refused("gpqa_diamond", tmp_path, r"gpqa_diamond\.csv, row 1 has more or fewer values than the columns Question, ")
