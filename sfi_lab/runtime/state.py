"""What every sequence of a batch carries from step to step, as one integer table on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfi_lab.settings import Settings

# Rows of the table. All describe the coming step; `done` sequences stand still.
FIELDS = (
    "length",  # keys cached, the coming step's own included
    "position",  # of the token the coming step feeds: length - 1
    "recent_start",  # first position of the recent window (fast), end of the candidates (slow)
    "route",  # 0: sink, selected and recent; 1: everything
    "active",  # 1: the selector runs
    "candidates",  # J where active, else 0
    "fast_steps",  # since the last slow step; -1: the next step with something to select is the first
    "ignored",  # steps of the cooldown still to come
    "after_end",  # 1: a sentence has ended and no new one has begun
    "pinned_start",  # recent_start at the last refresh
    "reason",  # why the coming step is slow (REASONS)
    "done",  # 1: an end-of-text token was made
)

REASONS = ("", "first", "trigger", "t_max", "nothing_to_select", "done")
FAST, FIRST, TRIGGER, T_MAX, NOTHING, DONE = range(6)

# Bits of the flags word that the device reports after each step about the next one.
ANY_DENSE, ANY_ACTIVE, ANY_FAST, ALL_DONE = 1, 2, 4, 8

TRIGGERS = {"never": 0, "sentence": 1, "period": 2}


@dataclass(frozen=True)
class Rules:
    """The settings that decide routes on the device.

    `trigger` "sentence" here is the paper's own rule: T_trig is a set of token ids made before decoding, and a step is
    slow when the token it feeds is in it ("boundary") or is the first opener behind one ("next_sentence"). The
    reference's `SentenceTracker` reads the text instead, so that decimals, abbreviations, ellipses and code don't end
    sentences and an ender split over several tokens is seen; a run that must agree with the reference step by step
    lets the host write the routes from its `Planner`.
    """

    sink: int
    recent: int
    k: int
    t_max: int
    trigger: int
    period: int
    on_start: bool
    min_gap: int
    cooldown: int
    pinned: bool

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """From settings whose trigger is one of `TRIGGERS`; others ("random", "drift") count as "never" here."""
        return cls(
            settings.sink, settings.recent, settings.k, settings.t_max, TRIGGERS.get(settings.trigger, 0),
            settings.period, settings.fire_on == "next_sentence", settings.min_gap, settings.cooldown,
            settings.recent_mode == "pinned",
        )  # fmt: skip

    @property
    def limits(self) -> tuple[int, ...]:
        """The numbers that may change between captured steps: sink, recent, K, T_max, period, min_gap, cooldown."""
        return (self.sink, self.recent, self.k, self.t_max, self.period, self.min_gap, self.cooldown)


class BatchState:
    """The table int32 [len(FIELDS), B], one view a field, and what the device reports to the host."""

    def __init__(self, batch: int, device: torch.device, history: int, rules: Rules) -> None:
        self.batch = batch
        self.limits = torch.tensor(rules.limits, dtype=torch.int32, device=device)  # captured steps read them anew
        self.table = torch.zeros(len(FIELDS), batch, dtype=torch.int32, device=device)
        self.tokens = torch.zeros(batch, dtype=torch.int32, device=device)  # fed by the coming step
        self.logprobs = torch.zeros(batch, dtype=torch.float32, device=device)
        self.flags = torch.zeros(2, dtype=torch.int32, device=device)  # bits about the coming step, steps made
        self.history = torch.zeros(
            history, 2, batch, dtype=torch.int32, device=device
        )  # token made, reason of its step
        self.host = HostReport(batch, pinned=device.type == "cuda")
        self.table[FIELDS.index("fast_steps")] = -1

    def __getattr__(self, name: str) -> Tensor:
        if name in FIELDS:
            return self.table[FIELDS.index(name)]
        raise AttributeError(name)

    def upload(self, rows: Tensor) -> None:
        """The host decides: replaces the whole table. rows int32 [len(FIELDS), B] on the CPU."""
        self.table.copy_(rows, non_blocking=True)

    def download(self) -> None:
        """Queues the copy of tokens, log-probabilities and flags to the host."""
        self.host.tokens.copy_(self.tokens, non_blocking=True)
        self.host.logprobs.copy_(self.logprobs, non_blocking=True)
        self.host.flags.copy_(self.flags, non_blocking=True)


class HostReport:
    """The host's copy of what the last step said; pinned, so that copying needs no wait."""

    def __init__(self, batch: int, pinned: bool) -> None:
        self.tokens = torch.zeros(batch, dtype=torch.int32, pin_memory=pinned)
        self.logprobs = torch.zeros(batch, dtype=torch.float32, pin_memory=pinned)
        self.flags = torch.zeros(2, dtype=torch.int32, pin_memory=pinned)


def kind_of(flags: int) -> str:
    """Which captured step the flags ask for: "fast", "slow" (some select or routes differ) or "dense"."""
    if not flags & ANY_DENSE:
        return "fast"
    return "slow" if flags & (ANY_ACTIVE | ANY_FAST) else "dense"
