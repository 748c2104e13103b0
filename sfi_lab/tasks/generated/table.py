"""The table of generated kinds, and how one task is made."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from sfi_lab.errors import SfiError
from sfi_lab.tasks.generated.common import common_words
from sfi_lab.tasks.generated.draft import Draft
from sfi_lab.tasks.generated.facts import fact_qa
from sfi_lab.tasks.generated.long import long_proof, long_story
from sfi_lab.tasks.generated.needles import multi_key, multi_query, multi_value, single_needle
from sfi_lab.tasks.generated.tracking import variable_tracking
from sfi_lab.tasks.haystack import Haystack, words
from sfi_lab.tasks.task import Task

# The four of the recorded studies, in their order; these give the same prompts as they gave then.
KINDS: dict[str, Callable[..., Draft]] = {
    "single_needle": single_needle,
    "multi_needle": multi_key,
    "variable_tracking": variable_tracking,
    "common_words": common_words,
}
MORE_KINDS: dict[str, Callable[..., Draft]] = {
    "multi_value": multi_value,
    "multi_query": multi_query,
    "fact_qa": fact_qa,
    "fact_qa:1": partial(fact_qa, hops=1),
    "fact_qa:2": partial(fact_qa, hops=2),
    "long_story": long_story,
    "long_proof": long_proof,
}
ALIASES = {"multi_key": "multi_needle"}  # RULER's name for it, under which the registry has it
GENERATED = {**KINDS, **MORE_KINDS}


def make(
    kind: str,
    length: int,
    seed: int = 0,
    count: Callable[[str], int] = words,
    haystack: Haystack | None = None,
    depth: float | None = None,
    room: int | None = None,
) -> Task:
    """One task, the same for the same arguments and Python version (which fixes the documentation's text).

    length: of the prompt at most, in units of `count` (words, or tokens with a tokenizer's counter). haystack: one made
    with the same `count`, to make many tasks quickly. depth: where a single needle stands, as a share of the text from
    0 to 1; its kind is then "single_needle@DEPTH", and other depths are other texts and numbers. room: what the prompt may
    measure where a model's limit leaves less than the length, which the task is still named and drawn by. Raises SfiError
    for an unknown kind, a length that is too short, or a depth for another kind.
    """
    drawn = ALIASES.get(kind, kind)
    if drawn not in GENERATED:
        raise SfiError(f"unknown task {kind!r}; allowed: {', '.join((*GENERATED, *ALIASES))}")
    if depth is not None and drawn != "single_needle":
        raise SfiError(f"only a single_needle can be pinned to a depth, not {kind}")
    hay = haystack or Haystack(count)
    pinned, at = ({}, "") if depth is None else ({"depth": depth}, f"@{depth:g}")
    rng = random.Random(f"{drawn}{at}/{length}/{seed}")
    draft = GENERATED[drawn](length if room is None else room, rng, hay, **pinned)
    return Task(
        kind + at,
        length,
        seed,
        draft.prompt,
        draft.answers,
        draft.depths,
        draft.max_new_tokens,
        chat=draft.chat,
        scoring=draft.scoring,
        stop=draft.stop,
        labels=draft.labels,
    )


def sweep(
    kinds: Sequence[str] = tuple(KINDS),
    lengths: Sequence[int] = (500, 1000, 2000, 4000),
    seeds: Sequence[int] = range(3),
    count: Callable[[str], int] = words,
) -> list[Task]:
    """Every kind at every length with every seed."""
    hay = Haystack(count)
    return [make(kind, length, seed, count, hay) for kind in kinds for length in lengths for seed in seeds]


def needle_map(
    lengths: Sequence[int],
    depths: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    seeds: Sequence[int] = range(3),
    count: Callable[[str], int] = words,
) -> list[Task]:
    """A single needle at every depth of every length, each in a text of its own."""
    hay = Haystack(count)
    return [
        make("single_needle", length, seed, count, hay, depth)
        for length in lengths
        for depth in depths
        for seed in seeds
    ]
