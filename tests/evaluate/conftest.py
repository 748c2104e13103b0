import pytest


@pytest.fixture(scope="module")
def lab(lab_of):
    return lab_of("llama", "sdpa", num_hidden_layers=2, max_position_embeddings=1024)
