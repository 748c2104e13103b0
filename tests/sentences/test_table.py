"""The vocabulary as text, and T_trig."""

from collections import Counter

import pytest
import torch

from sfi_lab.errors import SfiError
from sfi_lab.sentences import TokenTable

ALL = ".?!;\n"


def test_texts_are_what_decoding_gives_behind_another_token(tokenizer, table, ids):
    anchor = ids("x")
    lead = tokenizer.decode(anchor)
    for i in range(0, len(tokenizer), 7):
        if i in table.special or i in table.partial:
            continue
        decoded = tokenizer.decode([*anchor, i], clean_up_tokenization_spaces=False)
        assert decoded == lead + table.texts[i], f"id {i}"


def test_leading_spaces_are_kept(table, ids):
    assert table.texts[ids("x the")[-1]].startswith(" ") or any(table.texts[i] == " " for i in ids("x the"))


def test_sizes_and_special_ids(tokenizer, table):
    assert len(table.texts) == len(table.pieces) == len(table) >= len(tokenizer)
    assert set(tokenizer.all_special_ids) <= table.special
    assert all(table.pieces[i].decode("utf-8", "replace") == table.texts[i] for i in range(len(table)))


def test_partial_ids_are_marked(table):
    for i, piece in enumerate(table.pieces):
        try:
            piece.decode("utf-8")
            whole = True
        except UnicodeDecodeError:
            whole = False
        assert whole == (i not in table.partial), f"id {i}: {piece!r}"


def made(*texts: str, special: tuple[int, ...] = ()) -> TokenTable:
    return TokenTable(texts, tuple(text.encode() for text in texts), frozenset(special), frozenset(), False)


ENDERS = [
    ".",
    ". ",
    '."',
    ".”)",
    ".\n",
    ".\n\n",
    "?!",
    "...",
    "…",
    ");",
    "。",
    "！",
    "？\n",
    "；",
    "done.",
    ".**"[:1],
    "».",
    ".»",
    " .",
]
NOT_ENDERS = ["", " ", "a", ".a", ",", "\n", "\n\n", ":\n", '"', ")", "3.1", ".(", "、", "\ufffd"]
ONLY_WITH_NEWLINE = ["\n", "\n\n", ":\n", ")\n", "\n    ", " \n"]


@pytest.mark.parametrize("text", ENDERS)
def test_enders(text):
    assert made("a", text).ender_ids(".?!;") == {1}


@pytest.mark.parametrize("text", NOT_ENDERS)
def test_not_enders(text):
    assert made("a", text).ender_ids(".?!;") == set()


@pytest.mark.parametrize("text", ONLY_WITH_NEWLINE)
def test_newlines_count_only_if_named(text):
    assert made("a", text).ender_ids(ALL) == {1}
    assert made("a", text).ender_ids(".?!;") == set()


def test_only_named_marks_count():
    table = made(".", "?", "!", ";", "。", "！", "；", "\n")
    assert table.ender_ids(".") == {0, 4}
    assert table.ender_ids("！") == {2, 5}, "a full-width setting means its ASCII form"
    assert table.ender_ids("") == set()


def test_special_ids_are_neither_enders_nor_openers():
    table = made("<end>.", ".", "a", special=(0,))
    assert table.ender_ids(".") == {1}
    assert table.opener_mask(".").tolist() == [False, False, True]


def test_masks_have_the_width_of_the_logits(table):
    enders, size = table.ender_ids(ALL), len(table) + 5
    mask = table.ender_mask(ALL, size)
    assert mask.dtype == torch.bool
    assert mask.shape == (size,)
    assert set(mask.nonzero().flatten().tolist()) == enders
    assert table.ender_mask(ALL, 10).shape == (10,)
    openers = table.opener_mask(ALL, size)
    assert not (openers & mask).any()
    assert not openers[len(table) :].any()
    found = openers.nonzero().flatten().tolist()
    assert found
    assert all(table.texts[i].strip() for i in found)
    with pytest.raises(SfiError, match="size"):
        table.ender_mask(ALL, 0)


def test_real_vocabularies_have_the_plain_marks(table, ids):
    enders = table.ender_ids(ALL)
    for mark in ".?!;":
        assert ids(f"x{mark}")[-1] in enders, mark


class Counting:
    """A tokenizer that counts what is asked of it; some of its properties take a walk over the vocabulary each."""

    def __init__(self, tokenizer):
        self.tokenizer, self.asked = tokenizer, Counter()

    def __len__(self):
        return len(self.tokenizer)

    def __getattr__(self, name):
        self.asked[name] += 1
        value = getattr(self.tokenizer, name)
        if not callable(value):
            return value

        def counted(*arguments, **options):
            self.asked[f"{name}()"] += 1
            return value(*arguments, **options)

        return counted


def test_a_vocabulary_is_decoded_once(tokenizer):
    counting = Counting(tokenizer)
    table = TokenTable.from_tokenizer(counting)
    asked = counting.asked
    probes = asked.pop("convert_tokens_to_string()")
    assert probes <= len(table) + 8, f"{probes} decodings of {len(table)} entries"
    assert max(asked.values()) <= 3, f"asked more than once an entry or a table: {asked}"
    before = sum(asked.values())
    table.ender_ids(ALL)
    assert sum(asked.values()) == before, "enders are read off the table"
