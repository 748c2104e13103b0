"""Text as it streams: whole characters only, the pieces joined are the text, nothing is held back for ever."""

import pytest

from sentence_tokenizers import unigram
from sfi_lab import Settings
from sfi_lab.decoder.streaming import TextStream

STORIES = ["Hello, 世界！今天下雨。", "naïve café 🙂🇩🇪👩‍👩‍👧 end", "  two  spaces\n\n\ttab ", "Ω", "🙂"]


@pytest.mark.parametrize("text", STORIES)
def test_pieces_are_whole_characters_and_join_to_the_text(tiny_lab, text):
    ids = tiny_lab.tokenizer(text)["input_ids"]
    assert len(ids) >= len(text.encode()) // 4
    stream = TextStream(tiny_lab.tokenizer)
    pieces = [stream.push(token) for token in ids]
    assert "\ufffd" not in "".join(pieces)
    assert "".join(pieces) + stream.finish() == stream.text == tiny_lab.tokenizer.decode(ids) == text


@pytest.mark.parametrize("text", [*STORIES, "a b  c", "Wait... what?"])
def test_pieces_of_a_sentencepiece_tokenizer(text):
    tokenizer = unigram()
    ids = tokenizer(text)["input_ids"]
    ids = [*ids[:2], tokenizer.eos_token_id, *ids[2:]]  # a special token in the middle must not cost a space
    stream = TextStream(tokenizer)
    pieces = [stream.push(token) for token in ids]
    assert "".join(pieces) + stream.finish() == stream.text == tokenizer.decode(ids, skip_special_tokens=True)
    assert "\ufffd" not in stream.text


def test_a_broken_character_is_shown_in_the_end(tiny_lab):
    ids = tiny_lab.tokenizer("ab世")["input_ids"]
    stream = TextStream(tiny_lab.tokenizer)
    pieces = [stream.push(token) for token in ids[:-1]]
    assert "\ufffd" not in "".join(pieces)
    assert stream.finish().startswith("\ufffd")
    stream = TextStream(tiny_lab.tokenizer)
    broken = ids[-2]  # the same byte over and over never becomes a character
    pieces = [stream.push(broken) for _ in range(40)]
    assert "".join(pieces).count("\ufffd") > 20, "held back for ever"


def test_generation_streams_what_the_result_holds(tiny_lab):
    ids = tiny_lab.tokenizer("Hello, 世界！🙂 今天下雨。")["input_ids"]
    steps = list(
        tiny_lab.stream("The river was high.", Settings(sink=2, recent=6, k=5, t_max=8, nms_radius=2), force=ids)
    )
    assert "".join(step.text for step in steps) == "Hello, 世界！🙂 今天下雨。"
    assert not any("\ufffd" in step.text for step in steps)
