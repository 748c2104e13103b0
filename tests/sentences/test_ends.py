"""Which tokens are reported as sentence ends, before anything behind them is known."""

import pytest

from sfi_lab.sentences import SentenceTracker, segment

PLAIN = ".?!;"
CLOSING = " \n\"'”’“»)*!?"  # `?!` is one token or two; the first reports
# A ¶ stands behind each ender that is to be reported.
CASES = {
    "stop": "The river was high.¶ Nobody crossed.¶",
    "marks": "What?!¶ Yes!¶ No;¶ well",
    "decimal": "Pi is 3.14 or so.¶",
    "a short number may go on": "He counted to 12. Then",
    "a long number does not": "Built in 1999.¶ Then",
    "thousands": "It cost 7,318. Then",
    "decimal at the end": "It is 3.14.¶ Then",
    "percent": "It fell by 50%.¶ Then",
    "list numbers": "1. Take the pan.¶\n2. Heat it.¶\n(3) Eat.¶\n- 4. Wash up.¶",
    "letters of a list": "a. the pan.¶\nb. the lid.¶",
    "titles": "Mr. Smith met Dr. Brown.¶",
    "short forms": "Fruit, e.g. apples, i.e. food, etc. and so on, cf. Fig. 3 vs. Eq. 4.",
    "initials": "J. R. Smith wrote it.¶",
    "german": "Er kam am 3. Mai, z. B. vgl. Abb. 2 bzw. d. h. so.¶ Dann nicht.¶",
    "dotted code": "x = a.b(c.d) and",
    "call": "Then use foo(). Then",
    "identifier": "The name my_list. Then",
    "backticks": "Type `one two. Three!` there.¶",
    "fence": "Look:\n```\nprint one. Two!\n```\nIt is done.¶",
    "address": "See https://example.com/a.b for it.¶",
    "quote once": '"You are late."¶ Then he left.¶',
    "german quote": "„Geh jetzt.“¶ Er ging.¶",
    "chinese": "今天下雨。¶我们读书！¶你呢？¶一是快；¶二",
    "chinese once": "“走吧。”¶我们",
    "wrapped short number": "He counted to 12.\n¶then",
}


def reported(events) -> list[str]:
    """The text up to each reported end, closers and white space taken off."""
    text, found = "", []
    for event in events:
        text += event.text
        if event.ends:
            found.append(text.rstrip(CLOSING))
    return found


@pytest.mark.parametrize("marked", CASES.values(), ids=CASES.keys())
def test_reported_ends(table, ids, marked):
    parts = marked.split("¶")
    expected = ["".join(parts[:n]).rstrip(CLOSING) for n in range(1, len(parts))]
    assert reported(segment(ids("".join(parts)), table, PLAIN)) == expected


LINES = [
    "One here.¶\n\nTwo here.¶\n",
    "A title\n¶\nA line.¶\n\n\n",
    "\n\nOne\n¶",
    "x = 1;\n¶y = 2\n¶",
    "He had 12.\n¶then",
]


@pytest.mark.parametrize("marked", LINES)
def test_stop_and_newlines_end_once(table, ids, marked):
    parts = marked.split("¶")
    expected = ["".join(parts[:n]).rstrip(CLOSING) for n in range(1, len(parts))]
    assert reported(segment(ids("".join(parts)), table, PLAIN + "\n")) == expected


def test_an_ellipsis_that_goes_on_leaves_the_end_to_come(table, ids):
    events = segment(ids("Wait… what is it? Yes."), table, PLAIN)
    assert reported(events) == ["Wait…", "Wait… what is it", "Wait… what is it? Yes."]


def test_nothing_ahead_is_used(table, ids):
    """Every event of a text is the event of that token with the rest of the text cut off."""
    tokens = ids('Mr. Smith paid 3.14 for `a.b` e.g. "Hi." Then? 今天。好')
    whole = segment(tokens, table, PLAIN)
    for n in range(1, len(tokens) + 1):
        assert segment(tokens[:n], table, PLAIN) == whole[:n], f"differs when cut after token {n}"


def test_special_tokens_part_sentences(tokenizer, table, ids):
    special = tokenizer.eos_token_id
    tracker = SentenceTracker(table, PLAIN)
    events = [
        tracker.push(token) for token in [*ids("It rained"), special, *ids("we stayed."), special, special, *ids("ok")]
    ]
    by_end = [event for event in events if event.ends]
    assert [event.text for event in events if event.text == tokenizer.eos_token] == [tokenizer.eos_token] * 3
    assert [event.sentence for event in by_end] == [0, 1]
    assert by_end[0].text == tokenizer.eos_token, "a special token ends an open sentence"
    assert by_end[1].text != tokenizer.eos_token, "a sentence that has ended is not ended again by it"
    assert events[-1].sentence == 2
