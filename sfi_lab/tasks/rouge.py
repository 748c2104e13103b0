"""ROUGE-L of texts (Lin 2004, section 3.2): how much of one is a common subsequence of the other, sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> list[str]:
    """One longest common subsequence of two word lists, in order (dynamic programming, len(a) · len(b) steps).

    Of several it is the one that a walk back from both ends finds, which drops b's last word before a's.
    """
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, word in enumerate(a, 1):
        row, above = longest[i], longest[i - 1]
        for j, other in enumerate(b, 1):
            row[j] = above[j - 1] + 1 if word == other else max(above[j], row[j - 1])
    found, i, j = [], len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            found.append(a[i - 1])
            i, j = i - 1, j - 1
        elif longest[i - 1][j] > longest[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found[::-1]


def rouge_l(text: str, reference: str) -> float:
    """Summary-level ROUGE-L, its F with equal weights: words at white space, sentences at full stops.

    For each sentence of the reference, the union of its longest common subsequences with the text's sentences; recall
    is the size of their union over the reference's different words, precision over the text's. Words count once in a
    text, as in the `rouge` package whose scores LongBench publishes (Lin counts every use). 0 for empty texts.
    """
    found, wanted = _sentences(text), _sentences(reference)
    in_text, in_reference = ({word for sentence in part for word in sentence} for part in (found, wanted))
    common: set[str] = set()
    for sentence in wanted:
        for other in found:
            common |= set(common_subsequence(sentence, other))
    if not common:
        return 0.0
    return 2 * len(common) / (len(in_text) + len(in_reference))


def _sentences(text: str) -> list[list[str]]:
    return [words for words in (part.split() for part in text.split(".")) if words]
