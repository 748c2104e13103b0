"""Texts to decode from: prompts written for this project, and long documents that every Python brings along.

| name | what |
|---|---|
| `prompt_names`, `prompt`, `Prompt` | the prompts in `data/prompts` |
| `pydoc_topics`, `pydoc_document` | Python's own documentation as plain English text |
"""

from sfi_lab.text.documents import pydoc_document, pydoc_topics
from sfi_lab.text.prompts import Prompt, prompt, prompt_names

__all__ = ["Prompt", "prompt", "prompt_names", "pydoc_document", "pydoc_topics"]
