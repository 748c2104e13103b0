"""Every wrong name, device or dtype gets a sentence that says what is allowed."""

from copy import deepcopy

import pytest
import torch
from transformers import AutoConfig

from sfi_lab.compat import quiet
from sfi_lab.errors import SfiError
from sfi_lab.loading import load, load_model
from sfi_lab.loading.names import form_of
from tiny_models import tiny_model


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smollm", r"'smollm' is not known\. Known names: smollm2-135m\. Also accepted: a folder"),
        ("a/b/c", "is not known"),
        ("", "is not known"),
        ("missing.gguf", "no GGUF file 'missing.gguf'"),
    ],
)
def test_a_name_of_no_form(name, message):
    with pytest.raises(SfiError, match=message):
        load_model(name)


def test_a_folder_without_config(tmp_path):
    with pytest.raises(SfiError, match=r"has no config\.json"):
        load_model(str(tmp_path))


def test_forms(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "x.GGUF").write_bytes(b"GGUF")
    names = ["smollm2-135m", str(tmp_path), str(tmp_path / "x.GGUF"), "org/name-1.5"]
    assert [form_of(name) for name in names] == ["known", "folder", "gguf", "hub"]


def test_an_unreachable_hub_says_what_to_do(monkeypatch):
    asked = []

    def unreachable(source, local=True):
        asked.append(local)
        raise OSError("We couldn't connect to the hub.\nsecond line")

    monkeypatch.setattr(load, "read_config", unreachable)
    with pytest.raises(
        SfiError, match=r"'org/name' is neither in the local .* connect to the hub. Check .*HF_HUB_OFFLINE=1"
    ):
        load_model("org/name")
    assert asked == [True, False]


def test_device_and_dtype_are_checked(tmp_path):
    AutoConfig.for_model("llama").save_pretrained(tmp_path)
    with pytest.raises(SfiError, match="Device 'abacus' is not known"):
        load_model(str(tmp_path), device="abacus")
    with pytest.raises(SfiError, match="Dtype 'int3' is not possible; give \"auto\" or one of float32"):
        load_model(str(tmp_path), dtype="int3")
    if not torch.cuda.is_available():
        with pytest.raises(SfiError, match="sees no CUDA GPU"):
            load_model(str(tmp_path), device="cuda")


def test_a_refused_model_is_refused_before_its_weights_are_missed(tmp_path):
    AutoConfig.for_model("mamba", num_hidden_layers=2).save_pretrained(tmp_path)
    with pytest.raises(SfiError, match="mamba cannot be decoded"):
        load_model(str(tmp_path))


@pytest.mark.parametrize(
    ("device", "stored", "want"),
    [("cpu", "bfloat16", "float32"), ("cuda", "bfloat16", "bfloat16"), ("cuda", "float16", "bfloat16"),
     ("cuda", "float32", "float32"), ("cpu", "float32", "float32")],
)  # fmt: skip
def test_auto_dtype(device, stored, want):
    config = AutoConfig.for_model("llama", dtype=getattr(torch, stored))
    assert load._dtype("auto", torch.device(device), config) == getattr(torch, want)


def test_a_folder_is_loaded_as_it_was_saved(tmp_path, default_tokenizer):
    model = tiny_model("qwen3", "sdpa")
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()
    with quiet():
        deepcopy(model).to(torch.bfloat16).save_pretrained(tmp_path)
    default_tokenizer.save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path), device="cpu")
    assert (loaded.spec.architecture, loaded.dtype, loaded.source) == ("Qwen3ForCausalLM", torch.float32, str(tmp_path))
    ids = torch.arange(3, 12)[None]
    torch.testing.assert_close(loaded.model(ids).logits, model(ids).logits)
    assert load_model(str(tmp_path), device="cpu", dtype="bfloat16").model.dtype == torch.bfloat16
