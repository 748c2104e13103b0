"""The decoder against a literal one, against the model itself, and against a poisoned cache."""

import pytest
import torch

from literal_decoder import literal_decode
from sfi_lab import Settings
from sfi_lab.compat import call_model

SPARSE = Settings(sink=2, recent=9, k=6, t_max=0, trigger="period", period=5, nms_radius=3)
VARIANTS = {
    "sliding": {},
    "pinned": {"recent_mode": "pinned"},
    "one query row": {"prefill_window": 1},
    "window wider than the prompt": {"prefill_window": 64},
    "no sink": {"sink": 0},
    "one recent": {"recent": 1},
    "one selected": {"k": 1},
    "released": {"alpha": 0.5, "nms_strength": 1.0, "exclusivity": 0.85, "lam_clip": (0.35, 0.25)},
    "layer groups": {"layer_groups": 2},
}


@pytest.fixture(scope="module")
def prompt_ids(tiny_lab, prose):
    return tiny_lab.tokenizer(prose)["input_ids"]


def outputs_of(lab):
    """{layer: attention output [H_q * D] of the newest position}, refreshed at each forward; and the hooks' handles."""
    seen, handles = {}, []
    for i, layer in enumerate(lab.model.model.layers):
        handles.append(
            layer.self_attn.o_proj.register_forward_pre_hook(
                lambda _m, x, i=i: seen.__setitem__(i, x[0][0, -1].clone())
            )
        )
    return seen, handles


def decode_and_watch(lab, ids, settings, n):
    """Each step of a stream with its attention outputs, packed positions and the state that made it."""
    session = lab.session(settings)
    seen, handles = outputs_of(lab)
    rows = []
    try:
        for step in session.stream(ids, n, ignore_eos=True):
            packed = {layer: memory.positions.clone() for layer, memory in session.state.packed.items()}
            rows.append((step, {i: x.clone() for i, x in seen.items()}, packed, dict(session.state.keys_read)))
    finally:
        for handle in handles:
            handle.remove()
    return rows


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("length", [40, 11])
def test_every_step_is_the_literal_decoders(tiny_lab, prompt_ids, name, length):
    settings = SPARSE.with_(**VARIANTS[name])
    if length == 11:
        settings = settings.with_(recent=min(settings.recent, 3), k=min(settings.k, 4))
    ids, n = prompt_ids[:length], 17
    rows = decode_and_watch(tiny_lab, ids, settings, n)
    period, groups, plans, refreshes = settings.period, settings.layer_groups, [], 0
    for i in range(n - 1):
        slow = i % period == 0
        dense = None
        if slow and i > 0 and groups > 1:
            dense = {layer for layer in range(3) if layer % groups == refreshes % groups}
            refreshes += 1
        plans.append(("slow" if slow else "fast", slow, dense))
    tokens, _, want = literal_decode(tiny_lab, ids, settings, plans)
    assert [row[0].route for row in rows[1:]] == [plan[0] for plan in plans]
    for i, ((step, outputs, packed, keys_read), (logits, read, literal_outputs, selected)) in enumerate(
        zip(rows[1:], want, strict=True)
    ):
        where = f"decode step {i} ({step.route})"
        for layer in range(3):
            for head, positions in enumerate(packed[layer].tolist()):
                assert positions[: settings.sink] == list(range(settings.sink)), where
                assert set(positions[settings.sink :]) == selected[layer][head], (
                    f"{where}, layer {layer}, head {head}: selection"
                )
            error = (outputs[layer] - literal_outputs[layer].reshape(-1)).abs().max()
            assert error < 1e-5, f"{where}, layer {layer}: attention output off by {error:.1e}"
            assert keys_read[layer] == len(read[layer][0]), f"{where}, layer {layer}: keys read"
        assert step.keys_read == pytest.approx(sum(len(sets[0]) for sets in read.values()) / 3)
        assert step.logprob == pytest.approx(float(logits.log_softmax(-1)[step.token_id]), abs=1e-4), where
    assert [row[0].token_id for row in rows] == tokens


@pytest.mark.parametrize("k", [200, 1 << 30])
def test_k_beyond_the_candidates_is_dense_bit_for_bit(tiny_lab, prompt_ids, k):
    ids = prompt_ids[:60]
    dense = tiny_lab.generate(ids, Settings.dense(), 30, ignore_eos=True)
    wide = tiny_lab.generate(ids, SPARSE.with_(k=k), 30, ignore_eos=True)
    assert wide.token_ids == dense.token_ids
    assert [s.logprob for s in wide.steps] == [s.logprob for s in dense.steps]
    assert wide.reasons == dense.reasons == {"nothing_to_select": 29}
    assert wide.keys_read_share == 1.0


def test_k_beyond_the_candidates_is_dense_on_the_real_model(real_lab, prose):
    dense = real_lab.generate(prose, Settings.dense(), 16, ignore_eos=True)
    wide = real_lab.generate(prose, Settings.paper(sink=2, recent=8, k=4000), 16, ignore_eos=True)
    assert [(s.token_id, s.logprob) for s in wide.steps] == [(s.token_id, s.logprob) for s in dense.steps]


def test_selecting_every_candidate_is_dense_too(tiny_lab, prompt_ids):
    """K = J at the first refresh and no hole: every step reads everything through the sparse path."""
    settings = SPARSE.with_(recent_mode="pinned", k=40 + 1 - 9 - 2 - 1, period=100)
    ids = prompt_ids[:40]
    dense = tiny_lab.generate(ids, Settings.dense(), 20, ignore_eos=True)
    rows = decode_and_watch(tiny_lab, ids, settings, 20)
    assert {row[0].route for row in rows[2:]} == {"fast"}
    missing = {row[0].keys_available - row[0].keys_read for row in rows[2:]}
    assert missing == {1.0}, "one candidate stays out, or nothing would be selected at all"
    first = [abs(row[0].logprob - step.logprob) for row, step in zip(rows[:2], dense.steps[:2], strict=True)]
    assert max(first) < 1e-6


@pytest.mark.parametrize("chunks", ["one", "several"])
def test_the_dense_path_gives_the_models_own_logits(tiny_lab, prompt_ids, chunks, monkeypatch):
    ids = prompt_ids[:50]
    if chunks == "several":
        monkeypatch.setattr("sfi_lab.decoder.read_prompt.PREFILL_CHUNK", 7)
    result = tiny_lab.generate(ids, Settings.dense(), 12, ignore_eos=True)
    check_against_sdpa(tiny_lab, ids, result)


def test_the_dense_path_gives_the_real_models_own_logits(real_lab, prose):
    ids = real_lab.tokenizer(prose)["input_ids"]
    check_against_sdpa(real_lab, ids, real_lab.generate(ids, Settings.dense(), 8, ignore_eos=True))


def check_against_sdpa(lab, ids, result):
    assert lab.model.config._attn_implementation == "sdpa"
    everything = ids + result.token_ids
    with torch.no_grad():
        logits = call_model(lab.model, torch.tensor([everything]), None, torch.arange(len(everything))[None], 0)[0]
    want = logits.float().log_softmax(-1)
    for i, step in enumerate(result.steps):
        own = want[len(ids) - 1 + i]
        assert int(own.argmax()) == step.token_id, f"step {i}"
        assert abs(float(own[step.token_id]) - step.logprob) < 1e-4, f"step {i}"


@pytest.mark.parametrize("ids_in_chunks", [1, 2, 7])
def test_the_prompts_window_does_not_depend_on_how_the_prompt_was_cut(tiny_lab, prompt_ids, ids_in_chunks, monkeypatch):
    """Also where the last piece is a single token, whose forward looks like a decode step."""
    ids = prompt_ids[:36]
    whole = decode_and_watch(tiny_lab, ids, SPARSE, 6)
    monkeypatch.setattr("sfi_lab.decoder.read_prompt.PREFILL_CHUNK", ids_in_chunks)
    cut = decode_and_watch(tiny_lab, ids, SPARSE, 6)
    for (a, _, packed_a, _), (b, _, packed_b, _) in zip(whole, cut, strict=True):
        assert a.token_id == b.token_id
        for layer, positions in packed_a.items():
            assert torch.equal(positions, packed_b[layer]), f"step {a.index}, layer {layer}"


# nothing else is read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sliding", "pinned"])
@pytest.mark.parametrize("poison", [float("nan"), 1e30])
def test_a_fast_step_reads_sink_selected_and_recent_and_nothing_else(tiny_lab, prompt_ids, mode, poison):
    settings = SPARSE.with_(recent_mode=mode, period=6)
    ids = prompt_ids[:45]
    clean = list(tiny_lab.stream(ids, settings, 6, ignore_eos=True))
    session = tiny_lab.session(settings)
    poisoned = []
    for step in session.stream(ids, 6, ignore_eos=True):
        poisoned.append(step)
        if step.index < 1:
            continue
        for layer, cache in enumerate(session.state.cache.full):
            start = max(settings.sink, session.state.length + 1 - settings.recent)
            if mode == "pinned":
                start = session.state.recent_start(layer)
            with torch.inference_mode():
                cache.k[:, :start] = poison  # sink and selected included: they are read from the packed memory
                cache.v[:, :start] = poison
    assert [s.route for s in poisoned[2:]] == ["fast"] * 4
    assert [(s.token_id, s.logprob) for s in poisoned] == [(s.token_id, s.logprob) for s in clean]


@pytest.mark.parametrize("part", ["sink", "selected", "recent", "newest"])
def test_a_fast_step_does_read_each_of_its_parts(tiny_lab, prompt_ids, part):
    ids = prompt_ids[:45]
    clean = list(tiny_lab.stream(ids, SPARSE, 3, ignore_eos=True))
    session = tiny_lab.session(SPARSE)
    changed = []
    for step in session.stream(ids, 3, ignore_eos=True):
        changed.append(step)
        if step.index == 1:
            for layer, cache in enumerate(session.state.cache.full):
                packed = session.state.packed[layer]
                target = {
                    "sink": packed.v[:, 1],
                    "selected": packed.v[:, SPARSE.sink + 3],
                    "recent": cache.v[:, -4],
                    "newest": cache.v[:, -1],
                }
                with torch.inference_mode():
                    target[part] += 2.0
    assert changed[2].route == "fast"
    assert changed[2].logprob != clean[2].logprob
