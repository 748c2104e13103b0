"""Which sentences a text has, decided token by token when each token arrives."""

import pytest

from sfi_lab.sentences import segment

PLAIN = ".?!;"
# A | stands where a new sentence starts.
CASES = {
    "two": "The river was high. |Nobody crossed it.",
    "decimal": "Pi is 3.14 or so. |It never ends.",
    "money": "It costs $3.50 now. |Cheap!",
    "version": "Use v1.2.3 or later. |Then restart.",
    "year": "It was built in 1999. |Then it burned.",
    "number ends": "He counted to 12. |Then he left.",
    "dotted code": "a.b() is a call. |It returns.",
    "chained code": "Call obj.method().other and wait. |It returns.",
    "call ends": "Then call foo(). |It returns.",
    "attribute": "The name self.width_px is fine. |Keep it.",
    "backticks": "Type `x. Y? Z!` there. |Then press return.",
    "double backticks": "Type ``a `b. C` d. E`` there. |Done.",
    "url": "See https://example.com/a.b?c=d for it. |It is short.",
    "title": "Mr. Smith met Dr. Brown. |They talked.",
    "e.g.": "Fruit, e.g. Apples, i.e. Sweet things. |Eat them.",
    "etc. goes on": "Pens, ink, etc. were sold there. |Nobody came.",
    "etc. ends": "Pens, ink, etc. |Nobody came.",
    "initials": "J. R. Smith wrote it. |It sold.",
    "pronoun": "There were only you and I. |We left.",
    "number sign": "See No. 5 there. |It is odd.",
    "no as answer": "She said no. |Then she left.",
    "figure": "As Fig. 3 shows, it grows. |Then it falls.",
    "ellipsis goes on": "Wait... what is it? |A cat.",
    "ellipsis ends": "He waited... |Nothing came.",
    "one-character ellipsis": "And so… it went on. |Nothing came… |Then it did.",
    "question and exclamation": "What?! |Yes! |Really?",
    "many marks": "No!!! |Yes.",
    "quote after stop": '"You are late." |Then the door closed.',
    "quote goes on": '"Stop!" she said. |Nobody did.',
    "typographic quotes": "“Go.” |‘No.’ |He went.",
    "german quotes": "„Geh.“ |Er ging.",
    "guillemets": "« Viens. » |Il vint.",
    "bracket after stop": "(It rained.) |We stayed.",
    "bold": "**Note.** |This matters.",
    "list": "1. Take the pan. |2. Heat it.",
    "lower-case question": "why? |because.",
    "semicolon": "The door closed; |the lamp went out.",
    "for loop": "for (i = 0; i < n; i++) { a.b(); }",
    "html entity": "Salt &amp; pepper. |Both.",
    "chinese": "今天下雨。|我们在家里读书。|你呢？|好！",
    "chinese quotes": "他说：“走吧。”|我们走了。|“好。”",
    "chinese corner quotes": "「走吧！」|我们走了。",
    "chinese semicolon": "一是快；|二是好。",
    "chinese number": "圆周率是3.14。|对。",
    "full-width point": "圆周率是３．１４。|对。",
    "chinese ellipsis": "我……不知道。|你呢？",
    "japanese": "雨が降った。|家で本を読む。",
    "ascii stop before han": "OK.|然后走。",
    "german": "Der Hund lief. |Er bellte, z. B. den Briefträger an. |Über ihm flog etwas.",
    "german short forms": "Vgl. Abb. 3 bzw. Tab. 4, d. h. alles. |Österreich auch.",
    "german ordinal": "Am 3. Mai kam er. |Es war warm.",
    "german ordinal after article": "Der 2. Weltkrieg endete 1945. |Danach war Ruhe.",
    "emoji": "Nice! |😀 is there.",
    "list in a line": "Do this. |1. Take the pan. |2. Heat it.",
}


def sentences(events) -> list[str]:
    """The texts of the sentences, white space at their ends taken off."""
    texts = [""] * (events[-1].sentence + 1)
    for event in events:
        texts[event.sentence] += event.text
    return [text.strip() for text in texts]


@pytest.mark.parametrize("marked", CASES.values(), ids=CASES.keys())
def test_sentences_of_a_text(table, ids, marked):
    events = segment(ids(marked.replace("|", "")), table, PLAIN)
    assert sentences(events) == [part.strip() for part in marked.split("|")]


NEWLINE_CASES = {
    "line ends a sentence": ("a title\nand a line", ["a title", "and a line"]),
    "stop and newline are one": ("One here.\nTwo here.\n\n\nThree here.", ["One here.", "Two here.", "Three here."]),
    "blank lines": ("\n\nOne line\n\n\nanother", ["One line", "another"]),
    "code lines": (
        "```\nx = a.b; y = c\nz = 1\n```\nThe end. Really.",
        ["```", "x = a.b; y = c", "z = 1", "```", "The end.", "Really."],
    ),
    "list": ("1. Take the pan\n2. Heat it", ["1. Take the pan", "2. Heat it"]),
    "windows newline": ("One here\r\nTwo here", ["One here", "Two here"]),
    "short number before a newline": ("He had 12.\nthen none", ["He had 12.", "then none"]),
}


@pytest.mark.parametrize(("text", "expected"), NEWLINE_CASES.values(), ids=NEWLINE_CASES.keys())
def test_newline_as_an_ender(table, ids, text, expected):
    assert sentences(segment(ids(text), table, PLAIN + "\n")) == expected


BARE_NEWLINE_CASES = {
    "a bare newline is nothing": ("a title\nand a line", ["a title\nand a line"]),
    "wrapped after a stop": ("See e.g.\nthis line. Then go.", ["See e.g.\nthis line.", "Then go."]),
    "blank line after an abbreviation": ("That was Dr.\n\nthe rest", ["That was Dr.", "the rest"]),
    "fence": (
        "Do `a. B` or\n```\nprint(a). B! C\n```\nThen stop. Go.",
        ["Do `a. B` or\n```\nprint(a). B! C\n```\nThen stop.", "Go."],
    ),
}


@pytest.mark.parametrize(("text", "expected"), BARE_NEWLINE_CASES.values(), ids=BARE_NEWLINE_CASES.keys())
def test_newline_not_an_ender(table, ids, text, expected):
    assert sentences(segment(ids(text), table, PLAIN)) == expected


def test_only_named_enders_count(table, ids):
    text = "One? Two! Three; four. Five"
    assert sentences(segment(ids(text), table, "!")) == ["One? Two!", "Three; four. Five"]
    assert sentences(segment(ids(text), table, "")) == [text]
    assert sentences(segment(ids("好。对！不"), table, "！")) == ["好。对！", "不"]
    assert sentences(segment(ids("One: two"), table, ":")) == ["One:", "two"]


def test_the_start_is_the_first_visible_token(table, ids):
    for text in ("One here. Two here.", "今天下雨。我们读书。", '"One here." “Two here.”', "One!\n\n Two!"):
        events = segment(ids(text), table, PLAIN)
        starts = [i for i, event in enumerate(events) if event.starts]
        changes = [i for i in range(1, len(events)) if events[i].sentence != events[i - 1].sentence]
        assert len(starts) == 2, (text, events)
        assert starts[1:] == changes, (text, events)
        assert events[starts[0]].sentence == 0
