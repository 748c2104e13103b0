"""From vocabulary entries to bytes: the three ways tokenizers spell them (byte alphabet, byte fallback, plain text)."""

import re
from typing import Any

ANCHOR = "x"  # decoders strip the space of a first token; behind an anchor it stays
_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
    """The byte-level BPE alphabet: printable Latin-1 stands for itself, the other bytes for 256, 257, ... in order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def vocabulary_pieces(tokenizer: Any) -> tuple[list[bytes], bool]:
    """The bytes of every vocabulary entry, and whether decoding drops the space in front of the first token.

    Parameters
    ----------
    tokenizer
        A Hugging Face tokenizer. How it spells entries is found out by decoding probes, not from its class.

    Returns
    -------
    (list of bytes, bool)
        UTF-8 bytes by id (a part of a character for byte pieces, empty for unused ids), and the flag.
    """
    to_string = tokenizer.convert_tokens_to_string
    size = max(len(tokenizer), max(tokenizer.get_vocab().values(), default=-1) + 1)
    entries = tokenizer.convert_ids_to_tokens(list(range(size)))
    if to_string([ANCHOR + "Ġa"]) == ANCHOR + " a":
        alphabet = byte_alphabet()
        return [_from_alphabet(entry, alphabet) for entry in entries], False
    fallback = to_string([ANCHOR, "<0x41>", ANCHOR]) == ANCHOR + "A" + ANCHOR
    drops_space = "a b" in (to_string(["▁a", "▁b"]), to_string(["a", "b"]))
    return [_behind_anchor(entry, to_string, fallback) for entry in entries], drops_space


def _from_alphabet(entry: str | bytes | None, alphabet: dict[str, int]) -> bytes:
    if entry is None or isinstance(entry, bytes):
        return entry or b""
    try:
        return bytes([alphabet[char] for char in entry])
    except KeyError:  # an added token, spelled as plain text
        return entry.encode("utf-8", "replace")


def _behind_anchor(entry: str | bytes | None, to_string: Any, fallback: bool) -> bytes:
    if entry is None or isinstance(entry, bytes):
        return entry or b""
    byte = _BYTE_FALLBACK.fullmatch(entry) if fallback else None
    if byte:
        return bytes([int(byte.group(1), 16)])
    return to_string([ANCHOR, entry]).removeprefix(ANCHOR).encode("utf-8", "replace")
