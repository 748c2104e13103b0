"""Properties of any stream: indices, texts, partial characters, work that doesn't grow."""

import random
import sys
from itertools import pairwise

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sfi_lab.errors import SfiError
from sfi_lab.sentences import SentenceTracker, TokenTable, segment
from sfi_lab.sentences.tracker import LINE_MEMORY

FRAGMENTS = [
    *[
        "the river",
        "Über",
        "今天",
        "下雨",
        "3",
        "14",
        "Mr",
        "e.g",
        "x_y(",
        ")",
        "`",
        "```",
        "I",
        "J",
        "😀",
        "é",
        "«",
        "»",
    ],
    *[".", ".", ".", "?", "!", ";", "…", "。", "？", "；", "．", '"', "“", "”", "」", "(", ")", "*", "-", ":", "&amp;"],
    *[" ", " ", " ", "\n", "\n\n", "\t", "\u00a0", "\r\n"],
]


def random_text(seed: int) -> str:
    generator = random.Random(seed)
    return "".join(generator.choices(FRAGMENTS, k=60))


@pytest.mark.parametrize("enders", [".?!;\n", ".?!", "\n", ""])
def test_indices_and_texts_of_random_texts(tokenizer, table, ids, enders):
    for seed in range(60):
        text = random_text(seed)
        tokens = ids(text)
        events = segment(tokens, table, enders)
        decoded = tokenizer.decode(tokens, clean_up_tokenization_spaces=False)
        assert "".join(event.text for event in events) == decoded, f"seed {seed}: {text!r}"
        previous = 0
        for event in events:
            assert 0 <= event.sentence - previous <= 1, f"seed {seed}: {event} after sentence {previous}"
            assert event.sentence == previous or event.starts, f"seed {seed}: {event} starts nothing"
            previous = event.sentence
        if not enders:
            assert previous == 0
            assert not any(event.ends for event in events)


def test_spelled_as_words():
    """A decoder that sets a space between all entries, but none before the first."""
    words = ["[UNK]", "the", "river", "rose", "!"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made)
    tokens = tokenizer("the river rose ! the river").input_ids
    events = segment(tokens, TokenTable.from_tokenizer(tokenizer), "!")
    assert "".join(event.text for event in events) == tokenizer.decode(tokens) == "the river rose ! the river"
    assert [event.sentence for event in events] == [0, 0, 0, 0, 1, 1]


def test_every_start_but_the_first_is_a_new_sentence(table, ids):
    for seed in range(60):
        events = segment(ids(random_text(seed)), table, ".?!;\n")
        starts = [event.sentence for event in events if event.starts]
        assert starts == list(range(len(starts))), f"seed {seed}"


def test_random_ids_never_fail(table):
    generator = random.Random(5)
    tokens = generator.choices(range(len(table)), k=3000)
    events = segment(tokens, table, ".?!;\n")
    assert len(events) == len(tokens)
    assert all(later.sentence >= earlier.sentence for earlier, later in pairwise(events))


def test_partial_characters_wait_for_their_last_byte(table, ids):
    text = "好。你😀é"
    events = segment(ids(text), table, ".")
    assert "".join(event.text for event in events) == text
    assert not any("\ufffd" in event.text for event in events)
    split = [i for i in ids("你") if i in table.partial]
    if split:  # the first byte of a Han character settles that a sentence starts there
        first = next(i for i, event in enumerate(events) if event.starts and event.sentence == 1)
        assert events[first].text == ""


def test_ids_beyond_the_table_have_no_text(table, ids):
    tracker = SentenceTracker(table, ".")
    assert tracker.push(len(table) + 7) == (0, False, False, "")
    with pytest.raises(SfiError, match="token ids are 0 or more, got -1"):
        tracker.push(-1)


@pytest.mark.parametrize(
    "text",
    ["The river was high. Nobody, e.g. Mr. Smith, paid 3.14 for it!\n今天下雨。", " and the river rose", "`x = (a"],
    ids=["sentences", "one endless sentence", "code that never ends"],
)
def test_work_and_memory_do_not_grow_with_the_text(table, ids, text):
    """Late tokens cost what early ones do: as many calls, and no string that holds more than the rules look back on."""
    block = (ids(text) * 200)[:200]
    tracker = SentenceTracker(table, ".?!;\n")
    for token in block * 2:  # the look-back is full
        tracker.push(token)
    early = calls_of(tracker, block)
    for token in block * 40:
        tracker.push(token)
    late = calls_of(tracker, block)
    assert late <= 1.05 * early + 20, f"{late} calls for the last 200 tokens, {early} for 200 early ones"
    held = {name: len(value) for name, value in vars(tracker).items() if isinstance(value, str)}
    assert max(held.values()) <= LINE_MEMORY, held


def calls_of(tracker, tokens) -> int:
    """Calls, of Python's and of C's functions, that pushing the tokens makes."""
    events = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        for token in tokens:
            tracker.push(token)
    finally:
        sys.setprofile(before)
    return sum(event in ("call", "c_call") for event in events)


@pytest.mark.parametrize("enders", ["a", ". ", "5"])
def test_letters_digits_and_spaces_are_no_enders(table, enders):
    with pytest.raises(SfiError, match="punctuation"):
        SentenceTracker(table, enders)


def test_a_table_needs_a_tokenizer():
    with pytest.raises(SfiError, match="Hugging Face tokenizer"):
        TokenTable.from_tokenizer("gpt2")
