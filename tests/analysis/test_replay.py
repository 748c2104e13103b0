"""A layer's replay: ranked together or one by one, what is reused, what is shared between layers and threads."""

import threading

import numpy as np
import pytest
import torch

from made_traces import made_trace, sentences_of
from sfi_lab import LayerReplay, Settings, whatif
from sfi_lab.analysis import recorded, replay
from sfi_lab.analysis.mass import Mass, attention_chunks

PROMPT, STEPS, HEADS, GROUP, DIM = 70, 75, 3, 2, 8  # more steps than two chunks of attention
SETTINGS = Settings(sink=2, recent=9, k=8, t_max=12, nms_radius=2, prefill_window=1)
QUESTIONS = [
    SETTINGS, SETTINGS.with_(lam=0.4), SETTINGS.with_(lam_clip=0.9), SETTINGS.with_(k=3), SETTINGS.with_(k=40), SETTINGS.with_(k=12),
    SETTINGS.with_(t_max=5), SETTINGS.with_(t_max=5, k=66), SETTINGS.with_(nms_strength=2.0), SETTINGS.with_(exclusivity=0.0),
    SETTINGS.with_(sink=0, recent=4), SETTINGS.with_(trigger="period", period=1, t_max=0), SETTINGS.with_(k=1000), SETTINGS,
]  # fmt: skip


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    generator = torch.Generator().manual_seed(3)
    qk = {
        layer: (
            torch.randn(STEPS, HEADS * GROUP, DIM, generator=generator) * 1.5,
            torch.randn(PROMPT + STEPS, HEADS, DIM, generator=generator),
            torch.randn(PROMPT + STEPS, HEADS, DIM, generator=generator),
        )
        for layer in (0, 1)
    }
    positions = np.tile(np.arange(6), (STEPS, 2 * HEADS, 1))
    root = tmp_path_factory.mktemp("replay") / "t"
    return made_trace(
        root,
        positions,
        sentences_of([7, 4], STEPS),
        layers=(0, 1),
        heads=HEADS,
        prompt=PROMPT,
        qk=qk,
        settings=SETTINGS,
    )


def test_together_is_one_by_one(trace):
    """The rankings of `run`, whatever was asked before, against the selector's own stages at every refresh."""
    kept = LayerReplay(trace, 1, output_error=False)
    for s in QUESTIONS:
        ranked, run = kept.ranked(s), kept.run(s)
        stages = LayerReplay(trace, 1, output_error=False).selections(s)
        assert list(ranked) == list(stages)
        for i, (one, positions) in enumerate(zip(stages.values(), run.positions, strict=True)):
            found = ranked[list(stages)[i]]
            assert found.order.tolist() == one.ranked.tolist(), f"{s.to_code()}, refresh {i}"
            assert (found.lam == one.lam.numpy()).all() and (run.lam[i] == found.lam).all()
            assert positions.tolist() == (one.ranked + s.sink).tolist() and positions.dtype == np.int32


def test_kept_mass_is_the_sum_over_what_is_read(trace):
    for s in (SETTINGS, SETTINGS.with_(recent_mode="pinned", t_max=7), SETTINGS.with_(sink=0, k=30)):
        one = LayerReplay(trace, 0, output_error=False)
        out, plan = one.run(s), one.schedule(s)
        weights = one.weights.view(STEPS, HEADS, GROUP, -1).mean(2)
        at, chosen, pinned = [list(plan.steps).index(step) for step in out.refresh_steps], None, None
        for i, length in enumerate(plan.lengths.tolist()):
            start = max(s.sink, length - s.recent)
            if i in at:
                chosen, pinned = out.positions[at.index(i)], start
            start = pinned if s.recent_mode == "pinned" and pinned is not None else start
            for head in range(HEADS):
                read = range(length) if i in at else {*range(s.sink), *chosen[head].tolist(), *range(start, length)}
                want = float(weights[i, head, sorted(read)].sum())
                assert out.kept[i, head] == pytest.approx(want, abs=1e-5), f"{s.to_code()}, step {i}, head {head}"
                assert out.keys_read[i] == len(read)


@pytest.mark.parametrize("n", [1, 32, 33])
def test_mass_of_any_number_of_steps(n):
    generator = torch.Generator().manual_seed(n)
    q, k = torch.randn(n, 4, DIM, generator=generator), torch.randn(2, 20 + n, DIM, generator=generator)
    lengths = list(range(20, 20 + n))
    mass, sinks = Mass(2, 20 + n, lengths), torch.randn(4, generator=generator)
    for rows, chunk in attention_chunks(q, k, lengths, 0.3, 5.0, sinks):
        assert chunk.shape[:3] == (2, 2, rows.stop - rows.start)
        mass.take(rows, chunk)
    for i, length in enumerate(lengths):
        logits = torch.tanh(torch.einsum("hgd,htd->hgt", q[i].view(2, 2, DIM), k[:, :length]) * 0.3 / 5.0) * 5.0
        joined = torch.cat([logits, sinks.view(2, 2, 1)], -1).softmax(-1)[..., :-1].mean(1)
        torch.testing.assert_close(mass.weights[:, :length, i], joined, atol=1e-6, rtol=1e-4)
        assert (mass.weights[:, length:, i] == 0).all(), "nothing lies beyond a step's own position"
        torch.testing.assert_close(mass.total[i], joined.sum(-1), atol=1e-6, rtol=1e-5)


def calls(monkeypatch, module, name):
    """Counts calls of a module's function, keeping what it was given."""
    seen, original = [], getattr(module, name)

    def counted(*given, **named):
        seen.append(given)
        return original(*given, **named)

    monkeypatch.setattr(module, name, counted)
    return seen


def test_a_moved_setting_recomputes_no_more_than_its_own_stages(trace, monkeypatch):
    one = LayerReplay(trace, 0, output_error=False)
    one.run(SETTINGS)
    evidence, prior = calls(monkeypatch, replay, "evidence_of"), calls(monkeypatch, replay, "prior_of")
    free, ranks = calls(monkeypatch, replay, "balance"), calls(monkeypatch, replay, "rank_many")
    for change in ({"lam": 0.1}, {"lam_clip": 0.5}, {"nms_strength": 1.0}, {"nms_radius": 5}, {"exclusivity": 1.0}):
        one.run(SETTINGS.with_(**change))
    assert not evidence and not prior and not free, "λ, NMS and exclusivity read evidence and prior, and change neither"
    assert len(ranks) == 5
    one.run(SETTINGS.with_(alpha=0.9))
    assert len(evidence) == len(ranks[-1][0]) and not prior, "α is the evidence's alone"
    one.run(SETTINGS.with_(gamma=0.9))
    assert len(prior) == len(ranks[-1][0]) == len(evidence), "γ is the prior's alone"


def test_k_cuts_and_another_schedule_ranks_its_new_refreshes(trace, monkeypatch):
    one = LayerReplay(trace, 0, output_error=False)
    first = one.run(SETTINGS.with_(k=20))
    ranks = calls(monkeypatch, replay, "rank_many")
    small = one.run(SETTINGS.with_(k=4))
    assert not ranks and [p.tolist() for p in small.positions] == [p[:, :4].tolist() for p in first.positions]
    more = one.run(SETTINGS.with_(k=20, t_max=4))
    new = set(more.refresh_steps.tolist()) - set(first.refresh_steps.tolist())
    assert len(ranks) == 1 and len(ranks[0][0]) == len(new) > 0
    one.run(SETTINGS.with_(k=25))
    assert len(ranks) == 2 and len(ranks[1][0]) == len(first.refresh_steps), "a larger K ranks further down"


def test_layers_share_what_is_the_recordings(trace, monkeypatch):
    asked = calls(monkeypatch, recorded, "events")
    replays = {}
    whatif(trace, SETTINGS, replays=replays)
    whatif(trace, SETTINGS.with_(lam=0.3), replays=replays)
    assert len(asked) == 1, "the sentences of a recording are the same for all its layers"
    del replays[1]
    whatif(trace, SETTINGS.with_(t_max=3), replays=replays)
    assert len(asked) == 1 and replays[0].recording is replays[1].recording


def test_overlap_is_left_out_where_nobody_asks(trace):
    one = LayerReplay(trace, 0, output_error=False)
    assert one.run(SETTINGS, overlap=False).overlap is None
    assert one.run(SETTINGS).overlap.shape == (len(one.ranked(SETTINGS)), HEADS)


def test_threads_may_share_a_replay(trace):
    one = LayerReplay(trace, 0, output_error=False)
    want = {s: LayerReplay(trace, 0, output_error=False).run(s) for s in QUESTIONS}
    wrong = []

    def ask(order):
        try:
            for s in order:
                found = one.run(s)
                if [p.tolist() for p in found.positions] != [p.tolist() for p in want[s].positions]:
                    wrong.append(s.to_code())
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=ask, args=(order,)) for order in (QUESTIONS * 3, QUESTIONS[::-1] * 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
