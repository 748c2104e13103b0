"""What a full stop means, from what precedes it; and whether the next visible character confirms a sentence end.

What can't be known
-------------------
`starts` is decided when the next visible character is there, so decimals and dotted names never start a sentence. It
still errs where only meaning helps: `Plan B. Then` reads like the initial in `J. Smith`; a sentence that begins with a
lower-case name after a single stop (`. iOS`) is not seen; an ellipsis before a capital is taken for an end; a Chinese
quotation followed by its speaker (`。”他说`) counts as two sentences; an answer that is a number
(`How many? 12. Then`) reads like a list number; a footnote mark glued to the stop (`.[1] Next`) hides the end.

`ends` looks at nothing behind the token. Held back, because something tends to follow: numbers of one to three digits
(`3.` may become 3.14; so `It has 12.` is an end only once a newline follows), list numbers, ordinals, abbreviations,
initials, call and identifier words, lines that look like code. Reported although the text may go on: the first stop of
`...` when it is a token of its own, plain words glued to a stop (`example.com`), `"Stop!" he said`, `1.2.` of `1.2.3`.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from sfi_lab.sentences import abbreviations
from sfi_lab.sentences.characters import CLOSERS, EMPHASIS, WIDE, folded, is_ideographic
from sfi_lab.sentences.code import is_code_word, looks_like_code


class Kind(Enum):
    """What an ender is, as far as the text before it tells."""

    LIST_NUMBER = auto()  # 1. at the start of a line
    TITLE = auto()  # Mr. - a name follows; German ordinals too
    INITIAL = auto()  # J.
    MAY_END = auto()  # etc.
    NUMERO = auto()  # No. - unless a digit follows
    NUMBER = auto()  # 3.
    CODE = auto()  # foo(). or a line of code
    STOP = auto()  # an ordinary full stop
    ELLIPSIS = auto()
    QUESTION = auto()  # ? and !
    CLAUSE = auto()  # ; and any other ender
    WIDE = auto()  # full-width forms
    NEWLINE = auto()


SURE = frozenset({Kind.STOP, Kind.ELLIPSIS, Kind.QUESTION, Kind.CLAUSE, Kind.WIDE, Kind.NEWLINE})
FOLLOWED = frozenset({Kind.LIST_NUMBER, Kind.TITLE})  # a line's end doesn't end them, a blank line does
NO_GAP, SPACE, LINE, BLANK_LINE = range(4)

_LIST_NUMBER = re.compile(r"[\s>#*+•·–-]*\(?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivx]{1,5}|[IVX]{1,5})")
_LEADING_NUMBER = re.compile(r"\s*\(?\d{1,3}")
_SHORT_NUMBER = re.compile(r"(?:^|[^\d.])\d{1,3}$")
_ORDINAL = re.compile(
    r"(?:^|\s)(?:(?<!\bI )am|vom|zum|den|dem|der|die|das|des|bis|im|ab|seit|jede[rnms]?|beim|(?:mon|diens|donners|frei|sams|sonn)tag,?)\s+\d{1,2}$",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&#?\w+$")
_INITIALS = re.compile(r"(?:[^\W\d]\.)+[^\W\d]")
_OPENING = CLOSERS + EMPHASIS + "([{„‚「『¿¡"
_WORD = re.compile(r"\S*$")
_GLUED_INITIALS = ("z", "d", "u", "o", "v", "i", "n")  # z. B., o. Ä., v. Chr.


@dataclass
class Candidate:
    """An ender waiting for the next visible character.

    Attributes
    ----------
    kind : Kind
    run : str
        The enders so far (`?!`, `...`).
    gap : int
        What white space has followed: NO_GAP, SPACE, LINE or BLANK_LINE.
    closed : bool
        A quote or a bracket was closed behind it.
    after_digit : bool
        A digit stands before it.
    """

    kind: Kind
    run: str
    gap: int = NO_GAP
    closed: bool = False
    after_digit: bool = False

    def extend(self, char: str) -> None:
        """Take one more ender into the run."""
        self.run += char
        self.gap = NO_GAP
        if char in WIDE:
            self.kind = Kind.WIDE
        elif set(self.run) <= {".", "…"}:
            self.kind = Kind.ELLIPSIS
        elif folded(char) in "?!":
            self.kind = Kind.QUESTION
        elif self.kind not in SURE:
            self.kind = Kind.STOP

    def ends_already(self) -> bool:
        """Whether the sentence counts as ended before its next visible character is known."""
        if self.kind in SURE:
            return True
        return self.gap >= (BLANK_LINE if self.kind in FOLLOWED else LINE)

    def confirmed_by(self, char: str) -> bool:
        """Whether `char`, the next visible character, is the first of a new sentence."""
        kind, lower = self.kind, char.islower()
        if kind is Kind.NEWLINE or self.gap == BLANK_LINE:
            return True
        if kind is Kind.WIDE:
            return not (self.after_digit and char.isdigit() and self.run == "．")
        if self.gap == NO_GAP:
            return is_ideographic(char) and kind in (Kind.STOP, Kind.QUESTION, Kind.CLAUSE)
        if self.gap == LINE and kind in (Kind.INITIAL, Kind.MAY_END, Kind.NUMERO, Kind.CODE):
            return not lower
        return _confirmed_after_space(self, char, lower)


def _confirmed_after_space(candidate: Candidate, char: str, lower: bool) -> bool:
    match candidate.kind:
        case Kind.LIST_NUMBER | Kind.TITLE | Kind.INITIAL:
            return False
        case Kind.MAY_END:
            return char.isupper()
        case Kind.NUMERO:
            return not lower and not char.isdigit()
        case Kind.CODE:
            return not lower and candidate.run == "."
        case Kind.QUESTION:
            return not (lower and candidate.closed)
        case Kind.CLAUSE:
            return True
        case _:
            return not lower


def candidate(line: str, head: str, char: str) -> Candidate | None:
    """Judge one ender by what precedes it on its line.

    Parameters
    ----------
    line : str
        The line before the ender.
    head : str
        The sentence before the ender, or its beginning if it is long.
    char : str
        The ender as written (`.`, `。`, ...), not a newline.

    Returns
    -------
    Candidate or None
        None where the character can't end anything (the `;` of an HTML entity).
    """
    word = _WORD.search(line).group().lstrip(_OPENING).rstrip(EMPHASIS)
    if char == ";" and _ENTITY.search(word):
        return None
    return Candidate(_kind(line, head, word, char), char, after_digit=line[-1:].isdigit())


def _kind(line: str, head: str, word: str, char: str) -> Kind:
    if char in WIDE:
        return Kind.WIDE
    dotted = _INITIALS.fullmatch(word) or abbreviations.listed(word, abbreviations.INNER | abbreviations.MAY_END)
    if looks_like_code(line) or (not dotted and is_code_word(word)):
        return Kind.CODE
    ascii_form = folded(char)
    if ascii_form in "?!":
        return Kind.QUESTION
    if ascii_form != ".":
        return Kind.CLAUSE
    return Kind.ELLIPSIS if char == "…" else _full_stop(line, head, word)


def _full_stop(line: str, head: str, word: str) -> Kind:
    if _LIST_NUMBER.fullmatch(line) or _LEADING_NUMBER.fullmatch(head):
        return Kind.LIST_NUMBER
    if not word:
        return Kind.CODE  # a stop behind a space: `.5`, `.gitignore`
    if _SHORT_NUMBER.search(word):
        return Kind.TITLE if _ORDINAL.search(line) else Kind.NUMBER
    if word in abbreviations.NUMERO and line.strip() != word:
        return Kind.NUMERO
    if abbreviations.listed(word, abbreviations.TITLES | abbreviations.INNER):
        return Kind.TITLE
    if abbreviations.listed(word, abbreviations.MAY_END):
        return Kind.MAY_END
    return _letter(line, word)


def _letter(line: str, word: str) -> Kind:
    last = word.rpartition(".")[2]
    if len(last) != 1 or last.upper() == last.lower():
        return Kind.STOP
    if last == "I" and line.strip() != "I" and not word.endswith(".I"):
        return Kind.STOP  # the pronoun: `you and I.`
    if last.isupper() or "." in word or last in _GLUED_INITIALS:
        return Kind.INITIAL
    return Kind.MAY_END
