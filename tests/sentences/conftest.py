"""The tokenizers that the tables of cases run over."""

import pytest
from transformers import AutoTokenizer

from sentence_tokenizers import byte_level, unigram
from sfi_lab.errors import SfiError
from sfi_lab.loading.default_model import default_model_folder
from sfi_lab.sentences import TokenTable


def _default():
    try:
        folder = default_model_folder(progress=False)
    except SfiError as error:
        pytest.skip(f"the default model can't be had here: {error}")
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


@pytest.fixture(scope="session", params=[_default, byte_level, unigram], ids=["default", "byte_level", "unigram"])
def tokenizer(request):
    return request.param()


@pytest.fixture(scope="session")
def table(tokenizer):
    return TokenTable.from_tokenizer(tokenizer)


@pytest.fixture
def ids(tokenizer):
    return lambda text: tokenizer(text, add_special_tokens=False).input_ids
