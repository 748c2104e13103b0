"""Python's own documentation as plain text."""

import re

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.text import pydoc_document, pydoc_topics
from sfi_lab.text.cleaning import plain_paragraphs

RAW = """
Binding of names
****************

A *scope* defines the **visibility** of a name within a block, and of left-
handed values.  It has a footnote. [3]

   def nothing(of, this):
       return "is kept here, although it has many words."

   stmt ::= "nothing" of this "is kept either, though it has words."

* The first item of a list is kept as a paragraph.

* items that are fragments,

1. The numbered item, which is also kept.
2. And the second one, without a blank line before.

object.__getattr__(self, name)

   Called when the default access fails and nothing else helps.

+-----+--------------------------------+
| a   | This table row is not kept at all. |
+-----+--------------------------------+

Frozen sets
   These represent an immutable set of things.

Changed in version 3.9: This note is left out of the text.

-[ Footnotes ]-

[1] This footnote is left out of the text as well.
"""
CLEAN = [
    "A scope defines the visibility of a name within a block, and of left-handed values. It has a footnote.",
    "The first item of a list is kept as a paragraph.",
    "The numbered item, which is also kept.",
    "And the second one, without a blank line before.",
    "Called when the default access fails and nothing else helps.",
    "Frozen sets. These represent an immutable set of things.",
]


def test_prose_is_kept_and_the_rest_is_not():
    assert list(plain_paragraphs(RAW)) == CLEAN


def test_topics_are_plain_paragraphs():
    topics = pydoc_topics()
    assert len(topics) >= 60
    assert list(topics) == sorted(topics)
    assert "execmodel" in topics
    for name, text in topics.items():
        for paragraph in text.split("\n\n"):
            assert "\n" not in paragraph, name
            assert paragraph == paragraph.strip(), name
            assert re.search(r"[.!?][\"”’)\]]*$", paragraph), (name, paragraph)
            assert not re.search(r"::=|>>>|  |^[*=-]{3}", paragraph), (name, paragraph)


def test_the_whole_document():
    document = pydoc_document()
    assert document == pydoc_document()
    assert len(document) > 150_000, len(document)
    paragraphs = document.split("\n\n")
    assert len(paragraphs) == len(set(paragraphs)), "a paragraph of several topics is kept once"
    letters = sum(char.isalpha() or char == " " for char in document)
    assert letters > 0.9 * len(document)
    assert document.startswith("A Python program is constructed from code blocks.")


@pytest.mark.parametrize("n_chars", [200, 4001, 60_000])
def test_a_length_is_an_upper_limit_at_a_sentence_end(n_chars):
    document = pydoc_document(n_chars)
    assert n_chars - 600 < len(document) <= n_chars
    assert document[-1] in ".)"
    whole = pydoc_document()
    assert whole.startswith(document)
    assert whole[len(document)].isspace()


def test_chosen_topics_come_in_the_order_asked_for():
    topics = pydoc_topics()
    made = pydoc_document(topics=["import", "execmodel"])
    assert made.startswith(topics["import"][:200])
    assert made.index(topics["execmodel"][:100]) > len(topics["import"]) - 1
    assert pydoc_document(len(made), topics=["import", "execmodel"]) == made


def test_bad_input_is_named():
    with pytest.raises(SfiError, match=r"unknown topics nonesuch; this Python has: .*execmodel"):
        pydoc_document(topics=["execmodel", "nonesuch"])
    limit = len(pydoc_document(topics=["execmodel"]))
    for n_chars in (0, -5, limit + 1):
        with pytest.raises(SfiError, match=f"from 1 to {limit} .*, got {n_chars}"):
            pydoc_document(n_chars, topics=["execmodel"])
    with pytest.raises(SfiError, match="too short for the first sentence"):
        pydoc_document(10)
