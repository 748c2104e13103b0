"""Scores of long generation and of given text: token ids and log-probabilities in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile

from sfi_lab.errors import SfiError


def perplexity(logprobs: Sequence[float]) -> float:
    """exp of the mean negative log-probability (nats) of the tokens. Raises SfiError for no tokens."""
    return math.exp(mean_nll(logprobs))


def mean_nll(logprobs: Sequence[float]) -> float:
    """Mean negative log-probability of the tokens, nats a token. Raises SfiError for no tokens."""
    if len(logprobs) == 0:
        raise SfiError("perplexity needs the log-probability of one token at least")
    return -math.fsum(logprobs) / len(logprobs)


def distinct(ids: Sequence[int], n: int) -> float:
    """Different n-grams over all n-grams (distinct-n, Li et al., arXiv 1510.03055); 1 where there is no n-gram."""
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


def repeated(ids: Sequence[int], n: int) -> float:
    """Share of n-grams that were there before: 1 - distinct-n (seq-rep-n, Welleck et al., arXiv 1908.04319)."""
    return 1.0 - distinct(ids, n)


def longest_loop(ids: Sequence[int]) -> int:
    """Tokens at the end that only say again what stands just before them: length of the tail with the best period, less one period.

    0 where the text doesn't end in a loop; a loop counts once it says its period of at least 1 token twice in full.
    """
    backwards, longest = list(reversed(ids)), 0
    for period in range(1, len(ids) // 2 + 1):
        same = sum(1 for _ in takewhile(lambda i: backwards[i] == backwards[i + period], range(len(ids) - period)))  # noqa: B023
        if same >= period:
            longest = max(longest, same)
    return longest


def first_difference(ids: Sequence[int], dense_ids: Sequence[int]) -> int | None:
    """Index of the first token that differs from the dense run's, the shorter one's length if one begins the other; None where equal."""
    if list(ids) == list(dense_ids):
        return None
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids, dense_ids, strict=False)))


def equal_share(ids: Sequence[int], dense_ids: Sequence[int]) -> float:
    """Share of positions with the dense run's token; positions that only one run has count as different. 1 for two empty runs."""
    longer = max(len(ids), len(dense_ids))
    return sum(a == b for a, b in zip(ids, dense_ids, strict=False)) / longer if longer else 1.0


def generation_scores(
    ids: Sequence[int], logprobs: Sequence[float] | None, dense_ids: Sequence[int]
) -> dict[str, float | int | None]:
    """Scores of a run's generated tokens.

    ids: the tokens generated. logprobs: of each of them under the dense model, nats, which has read the prompt and the
    run's own tokens before it; None where that was not measured. dense_ids: what dense greedy decoding generates.

    Returns tokens, perplexity (None without logprobs), repeated_4, loop_tokens, distinct_1 to distinct_3,
    first_difference (None where the runs are equal) and equal_share. Raises SfiError where ids and logprobs differ in number.
    """
    if logprobs is not None and len(logprobs) != len(ids):
        raise SfiError(f"{len(ids)} tokens need as many log-probabilities; got {len(logprobs)}")
    return {
        "tokens": len(ids),
        "perplexity": perplexity(logprobs) if logprobs is not None and len(ids) else None,
        "repeated_4": repeated(ids, 4),
        "loop_tokens": longest_loop(ids),
        **{f"distinct_{n}": distinct(ids, n) for n in (1, 2, 3)},
        "first_difference": first_difference(ids, dense_ids),
        "equal_share": equal_share(ids, dense_ids),
    }
