"""What the tracker says about one token."""

from typing import NamedTuple


class SentenceEvent(NamedTuple):
    """One token's place among the sentences.

    Attributes
    ----------
    sentence : int
        Index of the sentence that the token belongs to, from 0; never decreases, grows by at most 1 a token.
    ends : bool
        The token ends its sentence, as far as that can be known before the next token. At most once a sentence, unless
        the text that follows shows that the sentence went on.
    starts : bool
        The token is the first of a new sentence (also true for the first visible token of all).
    text : str
        The characters this token completes. Empty for a token that holds only a part of a UTF-8 character; the token
        that completes the character carries it. Joined, the texts are the decoded text.
    """

    sentence: int
    ends: bool
    starts: bool
    text: str
