"""At a model's limit: prompts as a run gives them to the model leave room for the whole answer; below it they don't change."""

import json

import pytest

from sfi_lab.decoder.prompt import encode
from sfi_lab.errors import SfiError
from sfi_lab.tasks import parse_tasks
from sfi_lab.tasks.positions import positions

KINDS = "single_needle,single_needle@0.5,multi_key,multi_value,multi_query,variable_tracking,common_words,fact_qa"
LIMIT = 2304  # of bytes, nearly: the tiny tokenizer has few longer tokens


@pytest.fixture(scope="module")
def tokenizer(tiny_lab):
    return tiny_lab.tokenizer


@pytest.fixture(scope="module")
def count(tokenizer):
    return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])


def taken(task, tokenizer):
    """Positions of prompt and answer."""
    prompt = [{"role": "user", "content": task.prompt}] if task.chat else task.prompt
    return len(encode(tokenizer, prompt, len(tokenizer))) + task.max_new_tokens


@pytest.mark.parametrize("name", [*KINDS.split(","), "long_story", "long_proof", "perplexity:pydoc"])
def test_generated_prompts_of_the_limits_length_leave_room_for_the_answer(tokenizer, count, name):
    (source,) = parse_tasks(name)
    unlimited = source.tasks([LIMIT, LIMIT - 800], 8, 0, count, tokenizer)
    found = source.tasks([LIMIT, LIMIT - 800], 8, 0, count, tokenizer, LIMIT)
    assert [(task.name, task.length) for task in found] == [(task.name, task.length) for task in unlimited]
    cut = [(task, free) for task, free in zip(found, unlimited, strict=True) if taken(free, tokenizer) > LIMIT]
    assert cut and all(task.length == LIMIT for task, _ in cut), (
        "prompts of the limit's length have no room for an answer"
    )
    assert set(found) - {task for task, _ in cut} <= set(unlimited), "what fits doesn't depend on the limit"
    for task, free in cut:
        assert LIMIT - 700 < taken(task, tokenizer) <= LIMIT, "as much is cut as must be, up to a sentence"
        assert (task.answers, task.max_new_tokens) == (free.answers, free.max_new_tokens), "the same question"


def test_lengths_that_cannot_be_had_are_refused(tokenizer, count):
    (needle,) = parse_tasks("single_needle")
    with pytest.raises(
        SfiError, match=r"single_needle: a context of 513 is more than the model's 512 positions; allowed: up to 512"
    ):
        needle.tasks([513], 1, 0, count, tokenizer, 512)
    with pytest.raises(SfiError, match=r"^a context of 60 is too short .* the smallest allowed is \d+$"):
        needle.tasks([60], 1, 0, count, tokenizer, 512)
    refused = r"doesn't fit into the model's 700 positions, 640 of which its answer may take: a context of \d+ is too short .* allowed is \d+$"
    with pytest.raises(SfiError, match="^long_story " + refused):
        parse_tasks("long_story")[0].tasks([700], 1, 0, count, tokenizer, 700)
    with pytest.raises(
        SfiError, match=r"perplexity:pydoc doesn't fit into the model's 200 positions, 256 of which .* nothing is left"
    ):
        parse_tasks("perplexity:pydoc")[0].tasks([100], 1, 0, count, tokenizer, 200)
    with pytest.raises(SfiError, match="single_needle is cut to 512 positions, which needs the model's tokenizer"):
        needle.tasks([300], 1, 0, count, None, 512)


@pytest.mark.parametrize("template", ["short", "long"])
@pytest.mark.parametrize("subset", ["hotpotqa", "trec"])  # with a chat template, and without
def test_data_sets_prompts_leave_room_for_the_answer(lab_of, tmp_path, template, subset):
    tokenizer = lab_of().tokenizer
    if template == "long":  # more than any fixed allowance
        tokenizer.chat_template = "<system>" + "You are of help. " * 60 + tokenizer.chat_template
    text = "世界 of words; " * 300  # cut anywhere, characters of several tokens may break and take others
    row = {"input": "Who?", "context": text, "answers": ["Ada"], "length": 1, "all_classes": ["Ada"], "_id": "a"}
    (tmp_path / f"{subset}.jsonl").write_text(json.dumps(row))
    for limit in (1500, 1501, 1503):
        (task,) = parse_tasks(f"longbench:{subset}", tmp_path)[0].tasks([1], 0, 0, len, tokenizer, limit)
        assert limit - 12 <= taken(task, tokenizer) <= limit


def test_another_longest_answer_counts_instead_of_the_tasks_own(tokenizer, count, tmp_path):
    (story,) = parse_tasks("long_story")
    (task,) = story.tasks([900], 1, 0, count, tokenizer, 1000, 20)
    (free,) = story.tasks([900], 1, 0, count)
    assert (task.prompt, task.max_new_tokens, free.max_new_tokens) == (free.prompt, 20, 640)
    (long,), (own,) = (story.tasks([900], 1, 0, count, tokenizer, 1600, new) for new in (1500, None))
    assert (long.prompt, long.max_new_tokens) == (own.prompt, 1500), "that an answer has no room is for the run to say"
    row = {"input": "Who?", "context": "of words " * 500, "answers": ["Ada"], "length": 1, "_id": "a"}
    (tmp_path / "hotpotqa.jsonl").write_text(json.dumps(row))
    (task,) = parse_tasks("longbench:hotpotqa", tmp_path)[0].tasks([1], 0, 0, len, tokenizer, 1500, 900)
    assert task.max_new_tokens == 900 and 1490 <= taken(task, tokenizer) <= 1500
    (given,) = parse_tasks("perplexity:pydoc")[0].tasks([900], 1, 0, count, tokenizer, 1000, 20)
    assert given.max_new_tokens == 20 and count(given.prompt) > 800


def test_positions_are_those_of_a_run(lab_of, prose):
    tokenizer = lab_of().tokenizer
    for chat in (False, True):
        prompt = [{"role": "user", "content": prose}] if chat else prose
        assert positions(prose, chat, tokenizer) == len(encode(tokenizer, prompt, len(tokenizer)))
    tokenizer.chat_template = None
    assert positions(prose, True, tokenizer) == len(encode(tokenizer, prose, len(tokenizer))), "no template: as text"
