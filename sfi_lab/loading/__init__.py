"""A name, a folder or a GGUF file becomes a model, its tokenizer and what the decoder must know of it.

| file | concept |
|---|---|
| `load.py` | `load_model`: from a name to `Loaded` |
| `names.py` | the known names and the forms a name can take |
| `default_model.py` | the bundled model: converted once, kept in the user's cache |
| `fetch.py` | where the bundled model's file comes from |
| `spec.py` | `ModelSpec`: shapes and layer kinds |
| `probe.py` | what a model's attention really does, seen in two forward calls |
| `refusals.py` | models that cannot be decoded this way, refused by name before their weights are read |
"""

from sfi_lab.loading.default_model import cache_folder
from sfi_lab.loading.load import Loaded, load_model
from sfi_lab.loading.names import DEFAULT, KNOWN
from sfi_lab.loading.refusals import refuse_unsupported
from sfi_lab.loading.spec import LayerKind, ModelSpec

__all__ = ["DEFAULT", "KNOWN", "LayerKind", "Loaded", "ModelSpec", "cache_folder", "load_model", "refuse_unsupported"]
