"""Sentences of a token stream, for any tokenizer: which ids can end one, and which tokens really do.

| name | what |
|---|---|
| `TokenTable` | every vocabulary entry decoded once; T_trig and its complement as sets and masks |
| `SentenceTracker` | the online rule: one token in, one `SentenceEvent` out |
| `SentenceEvent` | sentence index, `ends`, `starts`, text |
| `segment` | the tracker over a whole sequence |

`T_trig` (a set of ids, all the paper has) knows no context: it takes the stop in `3.14` for a sentence end. The tracker
reads what came before. `rules.py` lists what it can and can't know.
"""

from sfi_lab.sentences.events import SentenceEvent
from sfi_lab.sentences.table import TokenTable
from sfi_lab.sentences.tracker import SentenceTracker, segment

__all__ = ["SentenceEvent", "SentenceTracker", "TokenTable", "segment"]
