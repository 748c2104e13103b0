"""Both firing rules over a real tokenizer: the token fed in each slow step."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from sfi_lab.sentences import TokenTable, segment
from sfi_lab.settings import Settings
from trigger_events import schedule

TEXT = 'He paid 3.14 for it. "Go," she said... and left?! Yes. Mr. Poe ran `a. B`.\n\n今天下雨。你呢？Done'


@pytest.fixture(scope="module")
def tokenizer():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(
        [TEXT] * 3, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=made)


def fed_in_slow_steps(tokenizer, settings) -> list[str]:
    """The text up to the token that each slow step feeds; the first step left out."""
    events = segment(tokenizer(TEXT).input_ids, TokenTable.from_tokenizer(tokenizer), settings.enders)
    reasons = schedule(settings, events)
    text, found = "", []
    for event, reason in zip(events, reasons, strict=True):
        text += event.text
        if reason == "sentence":
            found.append(text)
    return found


def after(text: str, marked: str) -> list[str]:
    """The prefixes of `text` that `marked` (the same text with ¶ marks) names."""
    assert marked.replace("¶", "") == text
    parts = marked.split("¶")
    return ["".join(parts[:n]) for n in range(1, len(parts))]


def test_boundary_feeds_the_end(tokenizer):
    found = fed_in_slow_steps(tokenizer, Settings.paper(t_max=0, enders=".?!;"))
    marked = 'He paid 3.14 for it.¶ "Go," she said...¶ and left?!¶ Yes.¶ Mr. Poe ran `a. B`.¶\n\n今天下雨。¶你呢？¶Done'
    tail = '.?!。？" \n'  # how many of them are in the token fed depends on the vocabulary
    assert [text.rstrip(tail) for text in found] == [text.rstrip(tail) for text in after(TEXT, marked)]
    assert all(text[-1] in tail for text in found), found


def test_next_sentence_feeds_the_start(tokenizer):
    found = fed_in_slow_steps(tokenizer, Settings.released(t_max=0, min_gap=0, cooldown=0))
    # The ellipsis before a small letter starts nothing.
    marked = 'He paid 3.14 for it. ¶"Go," she said... and left?! ¶Yes. ¶Mr. Poe ran `a. B`.\n\n¶今天下雨。¶你呢？¶Done'
    before = after(TEXT, marked)
    assert len(found) == len(before), found
    for text, sentence_start in zip(found, before, strict=True):
        first = sentence_start + TEXT[len(sentence_start)]
        partial = text == sentence_start  # a first byte of a Han character was fed: no character yet
        assert partial or (text.startswith(first) and len(text) - len(first) < 6), (text, first)


def test_the_released_gap_thins_them_out(tokenizer):
    close = fed_in_slow_steps(tokenizer, Settings.released(t_max=0, min_gap=0, cooldown=0))
    apart = fed_in_slow_steps(tokenizer, Settings.released(t_max=0, min_gap=24))
    assert 0 < len(apart) < len(close)
