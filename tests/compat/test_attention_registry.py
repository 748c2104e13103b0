"""A session's attention function: the model's own logits come out, and nothing of it stays behind."""

import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface

from plain_attention import ListCache, PlainAttention
from sfi_lab.compat import attention_function, call_model
from sfi_lab.errors import SfiError
from tiny_models import TINY, WINDOW, tiny_model

RUNNABLE = [name for name in TINY if name != "stablelm"]
LENGTH = 4 * WINDOW + 3


@pytest.fixture(autouse=True)
def registries_end_as_they_began():
    before = [set(interface().keys()) for interface in (AttentionInterface, AttentionMaskInterface)]
    yield
    after = [set(interface().keys()) for interface in (AttentionInterface, AttentionMaskInterface)]
    assert after == before


def worst(got: torch.Tensor, want: torch.Tensor) -> str:
    index = torch.unravel_index((got - want).abs().argmax(), want.shape)
    return f"largest error {(got - want).abs().max():.2e} at {[int(i) for i in index]}"


def own_logits(name: str, ids: torch.Tensor) -> torch.Tensor:
    """Without cache, session or step: the model as transformers runs it (sdpa; eager where sdpa has no soft cap or sink)."""
    return tiny_model(name, "sdpa" if TINY[name][1] else "eager")(ids, use_cache=False).logits


@pytest.mark.parametrize("name", RUNNABLE)
@pytest.mark.parametrize(
    "pieces", [[LENGTH], [9] + [1] * (LENGTH - 9), [4, 1, 7, 1, LENGTH - 13]], ids=["once", "steps", "chunks"]
)
def test_logits_are_the_models_own(name, pieces):
    ids = torch.randint(3, 97, (1, LENGTH), generator=torch.Generator().manual_seed(2))
    model, attention = tiny_model(name), PlainAttention()
    cache, got, start = ListCache(2), [], 0
    with attention_function(model, "probe", attention):
        for n in pieces:
            positions = torch.arange(start, start + n)[None]
            got.append(call_model(model, ids[:, start : start + n], cache, positions, logits_to_keep=0))
            start += n
    got, want = torch.cat(got, dim=1), own_logits(name, ids)
    assert attention.calls == 2 * len(pieces)
    assert cache.get_seq_length() == LENGTH
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4, msg=lambda _: worst(got, want))


def test_windows_matter_at_this_length():
    """Without this the sliding cases above could pass with a full mask."""
    ids = torch.randint(3, 97, (1, LENGTH), generator=torch.Generator().manual_seed(2))
    wide = tiny_model("mistral", "sdpa", sliding_window=1000)(ids, use_cache=False).logits
    assert (own_logits("mistral", ids) - wide)[:, -1].abs().max() > 0.01


def test_only_the_last_logits_are_computed():
    model, ids = tiny_model("qwen3", "sdpa"), torch.arange(3, 14)[None]
    everything = call_model(model, ids, ListCache(2), torch.arange(11)[None], logits_to_keep=0)
    assert everything.shape == (1, 11, 97)
    for keep in (1, 4):
        last = call_model(model, ids, ListCache(2), torch.arange(11)[None], logits_to_keep=keep)
        torch.testing.assert_close(last, everything[:, -keep:])


def test_restored_after_an_error():
    model = tiny_model("llama", "sdpa")

    def failing(*args, **kwargs):
        raise RuntimeError("attention failed")

    with attention_function(model, "probe", PlainAttention()) as key:
        assert model.config._attn_implementation == key
    with pytest.raises(RuntimeError, match="attention failed"), attention_function(model, "probe", failing):
        model(torch.tensor([[3, 4]]))
    assert model.config._attn_implementation == "sdpa"


def test_nested_sessions_each_use_their_own_function():
    model, ids = tiny_model("llama", "sdpa"), torch.tensor([[3, 4, 5]])
    outer, inner = PlainAttention(), PlainAttention()
    with attention_function(model, "probe", outer):
        model(ids)
        with attention_function(model, "probe", inner):
            model(ids)
        model(ids)
    model(ids)
    assert (outer.calls, inner.calls) == (4, 2)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1), (1, 2, 0)])
def test_overlapping_sessions_may_end_in_any_order(order):
    model, ids = tiny_model("llama", "eager"), torch.tensor([[3, 4, 5]])
    functions = [PlainAttention() for _ in range(3)]
    sessions = [attention_function(model, "probe", function) for function in functions]
    for session in sessions:
        session.__enter__()
    alive = [0, 1, 2]
    for ending in order:
        sessions[ending].__exit__(None, None, None)
        alive.remove(ending)
        before = [function.calls for function in functions]
        model(ids)
        calls = [function.calls - n for function, n in zip(functions, before, strict=True)]
        assert calls == [2 if alive and i == alive[-1] else 0 for i in range(3)], f"alive {alive}"
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize("name", ["flash_probe", "my_sdpa", "org/kernel", "", "two words"])
def test_names_that_transformers_would_misread_are_refused(name):
    with (
        pytest.raises(SfiError, match="Attention name"),
        attention_function(tiny_model("llama"), name, PlainAttention()),
    ):
        pass


def test_a_model_outside_the_registry_is_refused():
    model = tiny_model("bloom", n_layer=1, n_head=2)
    with pytest.raises(SfiError, match="BloomForCausalLM"), attention_function(model, "probe", PlainAttention()):
        pass


def test_entering_asks_no_layer_for_what_it_lacks(monkeypatch):
    """A session begins at every decode step. Asking a module for an attribute it hasn't got raises inside torch, ten times the
    cost of looking; over the layers of a model that would be felt."""
    model, asked = tiny_model("llama", num_hidden_layers=30), []
    own = torch.nn.Module.__getattr__
    monkeypatch.setattr(torch.nn.Module, "__getattr__", lambda part, name: asked.append(name) or own(part, name))
    with attention_function(model, "probe", PlainAttention()):
        entering = list(asked)
    assert len(entering) < 30, f"{len(entering)} look-ups for 30 layers, e.g. {entering[:3]}"
