"""A stop string of blanks ends a run only once something was said before it; any other wherever it stands."""

import pytest

from sfi_lab import Settings
from sfi_lab.decoder.streaming import TextStream

SPARSE = Settings(sink=2, recent=6, k=5, t_max=8, nms_radius=2)


@pytest.mark.parametrize(
    ("said", "stop", "text"),
    [
        ("\nAda\nEve", ("\n",), "\nAda"),
        (" \n \n\tAda\n\nEve", ("\n",), " \n \n\tAda"),
        ("\n\n\nAda\nEve\n\nBea", ("\n\n",), "\n\n\nAda\nEve"),
        ("\nQuestion: Ada Question", ("Question",), "\n"),
        ("Question: Ada", ("Question", "\n"), ""),
        ("x\nAda", ("\n",), "x"),
        ("Ada; Eve", ("da",), "A"),
    ],
)
def test_stop_strings_wait_for_text(tiny_lab, said, stop, text):
    stream, pieces = TextStream(tiny_lab.tokenizer, stop), []
    for token in tiny_lab.tokenizer(said)["input_ids"]:
        pieces.append(stream.push(token))
        if stream.stopped:
            break
    assert stream.stopped and stream.text == text
    assert "".join(pieces) + stream.finish() == text


def test_a_text_of_blanks_never_stops(tiny_lab):
    stream = TextStream(tiny_lab.tokenizer, ("\n", " \n"))
    pieces = [stream.push(token) for token in tiny_lab.tokenizer("\n \n\n  \n")["input_ids"]]
    assert not stream.stopped
    assert "".join(pieces) + stream.finish() == "\n \n\n  \n"


def test_a_run_whose_first_token_is_the_stop_goes_on(tiny_lab):
    ids = tiny_lab.tokenizer("\nHello, rain.\nAnd")["input_ids"]
    steps = list(tiny_lab.stream("The river was high.", SPARSE, force=ids, stop="\n"))
    assert "".join(step.text for step in steps) == "\nHello, rain."
