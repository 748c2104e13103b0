"""Every metric against values worked out by hand."""

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.tasks import METRICS, Task, score
from sfi_lab.tasks import segmentation as segmentation_module
from sfi_lab.tasks.choices import chosen_letter, first_letter
from sfi_lab.tasks.metrics import token_f1
from sfi_lab.tasks.rouge import common_subsequence, rouge_l
from sfi_lab.tasks.segmentation import without_punctuation

CLASSES = ("Animal", "Date", "Date of birth", "Place")
CODE = "```python\n# a comment\n    return x + 1\nprint(x)"


@pytest.mark.parametrize(
    ("metric", "text", "answer", "wanted"),
    [
        ("contains", "It is 42, I think", "42", 1.0),
        ("contains", "It is 421", "42", 0.0),
        ("qa_f1", "The cat, a black cat!", "black cat", 4 / 5),  # cat black cat : black cat -> 2 * 2 / (3 + 2)
        ("qa_f1", "An Apple", "apple", 1.0),
        ("qa_f1", "pear", "apple", 0.0),
        ("qa_f1", "", "apple", 0.0),
        ("rouge_l", "the cat sat on a mat", "the cat lay on the mat", 8 / 11),  # the cat on mat: 4 of 6 and of 5 words
        ("rouge_l", "", "the cat", 0.0),
        ("classification", "It is an Animal", "Animal", 1.0),
        ("classification", "Animal or Place", "Animal", 1 / 2),
        ("classification", "Date of birth", "Date of birth", 1.0),  # Date is a part of the right name: not counted
        ("classification", "Date of birth", "Date", 1 / 2),
        ("classification", "Place", "Animal", 0.0),
        ("classification", "nothing", "Animal", 0.0),
        ("count", "There are 7 of 12, so 7", "7", 2 / 3),
        ("count", "none", "7", 0.0),
        ("count", "17", "7", 0.0),
        ("retrieval", "Paragraph 3 or Paragraph 30", "Paragraph 3", 1 / 2),
        ("retrieval", "段落12", "段落12", 1.0),
        ("retrieval", "the last one", "Paragraph 3", 0.0),
        ("code_similarity", CODE, "    return x + 1", 1.0),
        ("code_similarity", "abcd\nzzz", "abce", 0.75),  # 2 * 3 / 8
        ("code_similarity", "abc", "abcd", 0.86),  # 6 / 7, in hundredths
        ("code_similarity", "# only a comment", "x = 1", 0.0),
        ("choice", "I think the answer is (C).", "C", 1.0),
        ("choice", "It could be B. The correct answer is (D)", "D", 1.0),
        ("choice", "no idea", "A", 0.0),
        ("stated_choice", "**The correct answer is (B)**", "B", 1.0),
        ("stated_choice", "The correct answer is B.", "B", 1.0),
        ("stated_choice", "The correct answer is Bread", "B", 1.0),
        ("stated_choice", "The correct answer is C, no: The correct answer is (B)", "B", 1.0),
        ("stated_choice", "The correct answer is: (B)", "B", 0.0),
        ("stated_choice", "So the correct answer is (B)", "B", 0.0),
        ("stated_choice", "The answer is B.", "B", 0.0),
        ("choice", "so the correct answer is: (B)", "B", 1.0),
        ("letter", " B\n\nNext", "B", 1.0),
        ("letter", "Apple, then C", "C", 1.0),
        ("letter", "none", "C", 0.0),
    ],
)  # fmt: skip
def test_by_hand(metric, text, answer, wanted):
    assert METRICS[metric](text, answer, CLASSES) == pytest.approx(wanted)


def test_every_metric_is_between_0_and_1_and_1_for_the_answer_itself(monkeypatch):
    monkeypatch.setattr("sfi_lab.tasks.metrics.chinese_words", list)
    right = {
        "classification": "Animal",
        "choice": "B",
        "stated_choice": "B",
        "letter": "B",
        "count": "7",
        "retrieval": "Paragraph 3",
    }
    for name, metric in METRICS.items():
        answer = right.get(name, "two words")
        said = f"The correct answer is ({answer})" if name == "stated_choice" else answer
        assert metric(said, answer, CLASSES) == 1.0, name
        assert metric("", answer, CLASSES) == 0.0, name


def test_the_longest_common_subsequence():
    assert common_subsequence("ABCBDAB", "BDCABA") in (list("BCBA"), list("BDAB"), list("BCAB"))
    assert common_subsequence("", "AB") == []
    assert common_subsequence("AXBYC", "ABC") == list("ABC")


def test_rouge_l_joins_sentences_and_counts_a_word_once():
    # Lin 2004, section 3.2: w1 w2 w3 w4 w5 against two candidate sentences; their union is w1 w2 w3 w5, recall 4 / 5
    assert rouge_l("w1 w2 w6 w7 w8. w1 w3 w8 w9 w5", "w1 w2 w3 w4 w5") == pytest.approx(2 * 4 / (8 + 5))
    assert rouge_l("no no no", "no") == 1.0
    # values of the package `rouge` 1.0.1, whose scores LongBench publishes
    assert rouge_l("the cat sat. a dog ran fast", "a dog sat. the cat ran") == pytest.approx(12 / 13)


def test_token_f1_counts_repeats():
    assert token_f1(["a", "a", "b"], ["a", "b", "b"]) == pytest.approx(2 / 3)
    assert token_f1([], ["a"]) == 0.0


def test_chinese_answers_are_compared_by_words(monkeypatch):
    cut = {"他在北京，工作。": ["他", "在", "北京", "，", "工作", "。"], "北京 工作": ["北京", " ", "工作"]}
    monkeypatch.setattr("sfi_lab.tasks.metrics.chinese_words", cut.__getitem__)
    assert METRICS["qa_f1_zh"]("他在北京，工作。", "北京 工作", ()) == pytest.approx(2 * 2 / (4 + 2))
    assert METRICS["rouge_l_zh"]("他在北京，工作。", "北京 工作", ()) == pytest.approx(2 * 2 / (6 + 2))
    assert without_punctuation(["ＡＢ", "《", "A.", " ", "＋"]) == ["ａｂ", "a"]


def test_without_jieba_chinese_scores_say_what_to_install(monkeypatch):
    monkeypatch.setattr(segmentation_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SfiError, match=r"needs jieba: pip install '\.\[datasets\]'"):
        METRICS["qa_f1_zh"]("北京", "北京", ())


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The correct answer is (A). No: the correct answer is (B).", "A"),
        ("Option A fails and option B fails, so the answer is C", "C"),
        ("Answer: D", "D"),
        (r"so \boxed{B}", "B"),
        ("C) because", "C"),
        ("The correct answer is: Carbon", None),
        ("A long story", "A"),
        ("Because", None),
    ],
)
def test_the_letter_that_a_text_settles_on(text, letter):
    assert chosen_letter(text) == letter


def test_the_first_letter_is_no_part_of_a_word():
    assert first_letter("Both; D'Arcy and C.") == "C"
    assert first_letter("(A)") == "A"


def test_a_score_is_the_best_over_the_answers_and_of_the_first_line_where_said():
    task = Task("qa", 0, 0, "", ("red fox", "fox"), (), 8, metric="qa_f1", first_line=True)
    assert score(task, "\n\nfox\nred red red") == 1.0
    assert score(task, "blue\nfox") == 0.0
    whole = Task("qa", 0, 0, "", ("fox",), (), 8, metric="qa_f1")
    assert score(whole, "blue\nfox") == pytest.approx(2 / 3)
