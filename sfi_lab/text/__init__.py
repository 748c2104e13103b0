"""Texts to decode from: prompts written for this project, and long documents that every Python brings along.

| name | what |
|---|---|
| `prompt_names`, `prompt`, `Prompt` | the prompts in `data/prompts` |
| `prompt_text` | the text of a prompt file, its header taken off |
| `stop_strings.find_stop` | where a stop string ends a text |
| `pydoc_topics`, `pydoc_document` | Python's own documentation as plain English text |
"""

from sfi_lab.text.documents import pydoc_document, pydoc_topics
from sfi_lab.text.prompts import Prompt, prompt, prompt_names, prompt_text

__all__ = ["Prompt", "prompt", "prompt_names", "prompt_text", "pydoc_document", "pydoc_topics"]
