"""Other architectures: with K ≥ J the tokens of `model.generate`, and with less the literal decoder's, window layers untouched."""

import pytest
import torch

from literal_decoder import literal_decode
from sfi_lab import Settings
from tiny_models import WINDOW

# architecture, fields -> layer kinds expected, whether sdpa can run it
FAMILIES = {
    "qwen3": ("qwen3", {}, "ff", True),
    "qwen2": ("qwen2", {}, "sf", True),
    "llama": ("llama", {}, "ff", True),
    "mistral": ("mistral", {"sliding_window": None}, "ff", True),
    "mistral windowed": ("mistral", {}, "ss", True),
    "gemma2": ("gemma2", {}, "sf", False),
    "gemma3": ("gemma3_text", {}, "sf", True),
    "phi3": ("phi3", {"sliding_window": None}, "ff", True),
    "phi3 windowed": ("phi3", {}, "ss", True),
    "mixtral": ("mixtral", {"sliding_window": None}, "ff", True),
    "qwen3_moe": ("qwen3_moe", {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 24}, "ff", True),
    "gpt_oss": ("gpt_oss", {}, "sf", False),
    "olmo2": ("olmo2", {}, "ff", True),
}
SETTINGS = Settings(sink=2, recent=7, k=5, t_max=0, trigger="period", period=4, nms_radius=2, prefill_window=4)


@pytest.fixture(scope="module")
def family_lab(lab_of):
    made = {}

    def get(name):
        if name not in made:
            architecture, fields, _, sdpa = FAMILIES[name]
            made[name] = lab_of(architecture, "sdpa" if sdpa else "eager", **fields)
        return made[name]

    return get


@pytest.fixture(scope="module")
def ids():
    return torch.randint(5, 400, (4 * WINDOW + 5,), generator=torch.Generator().manual_seed(5)).tolist()


@pytest.mark.parametrize("name", FAMILIES)
def test_dense_tokens_are_those_of_generate(family_lab, ids, name):
    lab = family_lab(name)
    assert "".join(kind[0] for kind in lab.spec.layer_kinds) == FAMILIES[name][2]
    n = 3 * WINDOW
    prompt = torch.tensor([ids])
    own = lab.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=n,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )[0, len(ids) :].tolist()
    for settings in (Settings.dense(), SETTINGS.with_(k=500)):
        result = lab.generate(ids, settings, n, ignore_eos=True)
        assert result.token_ids == own, f"{name} under {settings.to_code()}"
        assert result.keys_read_share == 1.0
    assert len(set(own)) > 3, "the texts must not be one token over and over"


@pytest.mark.parametrize("name", FAMILIES)
def test_sparse_steps_are_the_literal_decoders_and_window_layers_keep_their_window(family_lab, ids, name):
    lab, n = family_lab(name), 12
    full = [i for i, kind in enumerate(lab.spec.layer_kinds) if kind == "full"]
    outputs, handles = {}, []
    for i, layer in enumerate(lab.model.model.layers):
        hook = lambda _m, x, i=i: outputs.__setitem__(i, x[0][0, -1].clone())  # noqa: E731
        handles.append(layer.self_attn.o_proj.register_forward_pre_hook(hook))
    rows = []
    session = lab.session(SETTINGS)
    try:
        for step in session.stream(ids, n, ignore_eos=True):
            rows.append((step, dict(outputs), sorted(session.state.packed)))
    finally:
        for handle in handles:
            handle.remove()
    if not full:
        # nothing can be made sparse, and the run says so instead of passing dense steps for fast ones
        assert {row[0].route for row in rows[1:]} == {"slow"}
        assert {row[0].reason for row in rows[1:]} == {"nothing_to_select"}
        assert all(row[0].keys_read == row[0].keys_available for row in rows[1:])
        plans = [("slow", False, None)] * (n - 1)
    else:
        plans = [("slow" if i % 4 == 0 else "fast", i % 4 == 0, None) for i in range(n - 1)]
        assert [row[0].route for row in rows[1:]] == [plan[0] for plan in plans]
        assert rows[-1][2] == full, "only layers with full attention have a packed memory"
    tokens, _, want = literal_decode(lab, ids, SETTINGS, plans)
    for i, ((step, seen, _), (_, read, literal, _)) in enumerate(zip(rows[1:], want, strict=True)):
        for layer in range(2):
            error = (seen[layer] - literal[layer].reshape(-1)).abs().max()
            assert error < 1e-5, f"{name}, decode step {i} ({step.route}), layer {layer}: output off by {error:.1e}"
        if full and step.route == "fast":
            assert step.keys_read == 2 + 5 + 7 == len(read[full[0]][0])
    assert [row[0].token_id for row in rows] == tokens


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "mistral windowed", "qwen3_moe"])
def test_every_level_of_recording_works(family_lab, ids, name, tmp_path):
    lab = family_lab(name)
    full = [i for i, kind in enumerate(lab.spec.layer_kinds) if kind == "full"]
    result = lab.generate(ids, SETTINGS, 8, record="audit+qk", trace=tmp_path / "t", ignore_eos=True)
    trace = result.trace
    assert trace.layers == trace.qk_layers == full
    assert trace.steps.height == 8
    assert sorted(trace.support.collect()["layer"].unique().to_list()) == full
    if name == "gpt_oss":
        mass = trace.support.collect().select("weights", "rest").rows()
        assert all(sum(w) + rest < 1 for w, rest in mass), "sink logits take their share"
        assert trace.sink_logits(full[0]).shape == (6,)
    if name == "gemma2":
        assert trace.scaling(full[0]) == (pytest.approx(5**-0.5), 0.5)
