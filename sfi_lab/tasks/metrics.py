"""Scores of one continuation against one right answer, each from 0 to 1.

Every metric is a function (text, answer, classes) -> float; `METRICS` is the table that tasks name them by. Those that
LongBench uses (arXiv 2308.14508, its section on evaluation) follow its evaluation's definitions; where it takes a
library's version of a measure, the docstring says which.
"""

from __future__ import annotations

import difflib
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from sfi_lab.tasks.choices import chosen_letter, first_letter
from sfi_lab.tasks.rouge import rouge_l
from sfi_lab.tasks.segmentation import chinese_words, without_punctuation

Metric = Callable[[str, str, Sequence[str]], float]


def contains(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """1 where the answer stands in the text as whole words or numbers."""
    return float(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) is not None)


def token_f1(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the tokens, each counted as often as it occurs (SQuAD, arXiv 1606.05250)."""
    same = sum((Counter(found) & Counter(wanted)).values())
    return 2 * same / (len(found) + len(wanted)) if same else 0.0


def english_words(text: str) -> list[str]:
    """Lower-case words without ASCII punctuation and the articles a, an, the: SQuAD's normal form."""
    plain = text.lower().translate(str.maketrans("", "", string.punctuation))
    return re.sub(r"\b(?:a|an|the)\b", " ", plain).split()


def qa_f1(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """Token F1 of English words."""
    return token_f1(english_words(text), english_words(answer))


def qa_f1_zh(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """Token F1 of Chinese words (jieba's), without punctuation."""
    return token_f1(*(without_punctuation(chinese_words(part)) for part in (text, answer)))


def rouge_l_en(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """ROUGE-L F of words at white space (`sfi_lab.tasks.rouge`)."""
    return rouge_l(text, answer)


def rouge_l_zh(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """ROUGE-L F of Chinese words (jieba's)."""
    return rouge_l(" ".join(chinese_words(text)), " ".join(chinese_words(answer)))


def classification(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """1 / number of classes named in the text, if the right one is among them.

    A class whose name is a part of the right one's name doesn't count as named.
    """
    named = [name for name in classes if name in text and (name == answer or name not in answer)]
    return 1 / len(named) if answer in named else 0.0


def number_share(text: str, number: str) -> float:
    """Share of the numbers in the text that are this one."""
    numbers = re.findall(r"\d+", text)
    return numbers.count(number) / len(numbers) if numbers else 0.0


def count(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """Share of the numbers in the text that are the right count."""
    return number_share(text, answer)


def retrieval(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """Share of the numbers in the text that are the answer's: it names a paragraph, as "Paragraph 7" does."""
    wanted = re.search(r"\d+", answer)
    return number_share(text, wanted[0]) if wanted else 0.0


def code_similarity(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """Matching share (Ratcliff-Obershelp, `difflib`) of the text's first line of code and the right line, in hundredths.

    A line with a backtick, # or // is no code. LongBench's fuzzy ratio is this one where no Levenshtein library is installed.
    """
    lines = text.lstrip("\n").split("\n")
    line = next((line for line in lines if not any(mark in line for mark in ("`", "#", "//"))), "")
    if not line or not answer:
        return float(line == answer)
    return round(100 * difflib.SequenceMatcher(None, line, answer).ratio()) / 100


def choice(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """1 where the letter that the text settles on is the answer (`sfi_lab.tasks.choices`)."""
    return float(chosen_letter(text) == answer)


def stated_choice(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """1 where LongBench V2's evaluation finds "The correct answer is (X)", with or without brackets, and X is the answer."""
    return float(chosen_letter(text, strict=True) == answer)


def letter(text: str, answer: str, classes: Sequence[str] = ()) -> float:
    """1 where the first letter A-D that stands by itself is the answer: for prompts that end with "Answer:"."""
    return float(first_letter(text) == answer)


METRICS: dict[str, Metric] = {
    "contains": contains,
    "qa_f1": qa_f1,
    "qa_f1_zh": qa_f1_zh,
    "rouge_l": rouge_l_en,
    "rouge_l_zh": rouge_l_zh,
    "classification": classification,
    "count": count,
    "retrieval": retrieval,
    "code_similarity": code_similarity,
    "choice": choice,
    "stated_choice": stated_choice,
    "letter": letter,
}
ALL_ANSWERS = ("contains",)  # metrics that want every answer of a task; the others take the best
CHINESE = ("qa_f1_zh", "rouge_l_zh")  # metrics that need word segmentation
