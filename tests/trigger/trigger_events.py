"""Made-up sentence events and settings for the trigger tests."""

from types import SimpleNamespace

from sfi_lab.sentences import SentenceEvent
from sfi_lab.trigger import Refresher

DEFAULTS = {
    "trigger": "sentence",
    "t_max": 0,
    "period": 4,
    "seed": 0,
    "drift_threshold": 0.3,
    "fire_on": "boundary",
    "min_gap": 0,
    "cooldown": 0,
}


def settings(**over) -> SimpleNamespace:
    """Only what the trigger reads; no sentence ends up here without being asked for."""
    assert not set(over) - set(DEFAULTS), over
    return SimpleNamespace(**(DEFAULTS | over))


def events(marks: str) -> list[SentenceEvent]:
    """`.` ends a sentence, `S` starts one, `B` does both, `-` does neither."""
    found, sentence = [], 0
    for i, mark in enumerate(marks):
        starts = mark in "SB"
        sentence += starts and i > 0
        found.append(SentenceEvent(sentence, mark in ".B", starts, mark))
    return found


LETTERS = {"first": "F", "sentence": "s", "t_max": "T", "period": "p", "random": "r", "drift": "d", None: "-"}


def letters(reasons) -> str:
    """A schedule in one line: F first, s sentence, T t_max, p period, r random, d drift, - fast."""
    return "".join(LETTERS[reason] for reason in reasons)


def schedule(settings, events, drifts=None) -> list[str | None]:
    """The reasons of all steps in a row."""
    events = list(events)
    refresher = Refresher(settings)
    return [refresher.next(*pair) for pair in zip(events, drifts or [None] * len(events), strict=True)]
