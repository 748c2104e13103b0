"""Character classes: enders and their other forms, closers, whether a letter is ideographic."""

from types import MappingProxyType

from sfi_lab.errors import SfiError

# Other forms of an ender, by the ASCII form which a setting names.
FORMS = MappingProxyType(
    {"。": ".", "｡": ".", "．": ".", "…": ".", "۔": ".", "।": ".", "॥": "."}
    | {"！": "!", "‼": "!", "？": "?", "؟": "?", "⁇": "?", "⁈": "?", "⁉": "?", "；": ";", "：": ":", "，": ","}
)
# Full-width forms: the next sentence follows without a space.
WIDE = frozenset("。｡．！？；：，")

ALWAYS_CLOSE = ")]}”’›）］｝〕】》〉」』"
# Open or close, by language or by place: „so“, »so«, “so”, "so".
MAY_CLOSE = "\"'“‘«»‹"
CLOSERS = ALWAYS_CLOSE + MAY_CLOSE
EMPHASIS = "*_"
# Not a gap: French sets one before a closing », and names are glued with it (Mr.\u00a0Smith).
NO_BREAK_SPACES = "\u00a0\u202f\u2007"


def folded(char: str) -> str:
    """The ASCII form of an ender (`。` gives `.`); any other character as it is."""
    return FORMS.get(char, char)


def ender_set(enders: str) -> frozenset[str]:
    """The set of enders in ASCII form.

    Parameters
    ----------
    enders : str
        One character an ender, e.g. ``".?!;\\n"``; full-width forms mean their ASCII form; may be empty.

    Raises
    ------
    SfiError
        For a letter, a digit or a space: only punctuation and the newline can end a sentence.
    """
    if not isinstance(enders, str):
        raise SfiError(f"enders must be a string such as '.?!;\\n', got {type(enders).__name__}")
    for char in enders:
        if char.isalnum() or (char.isspace() and char != "\n"):
            raise SfiError(f"enders may hold punctuation and '\\n' only, got {char!r} in {enders!r}")
    return frozenset(map(folded, enders))


def spellings(enders: frozenset[str]) -> frozenset[str]:
    """The enders with all their other forms."""
    return enders | {form for form, ascii_form in FORMS.items() if ascii_form in enders}


def is_ideographic(char: str) -> bool:
    """A Han character or kana: scripts written without spaces between sentences."""
    return "\u3041" <= char <= "\u30ff" or "\u3400" <= char <= "\u9fff" or "\U00020000" <= char <= "\U0003ffff"
