"""From the documentation builder's text output to plain paragraphs."""

import re
from collections.abc import Iterator

_UNDERLINE = re.compile(r"^([*=\-~^\"'+#])\1{2,}$")
_BULLET = re.compile(r"^(?:[*•-]|\d+\.|[a-z]\.|[IVX]+\.)\s+")
_VERSION_NOTE = re.compile(r"^(?:Changed|New|Added|Deprecated) (?:in|since)|^See also")
_CODE = re.compile(
    r"::=|>>>|^\s*\|| \| |\+[-=]{3}|[-=]{6}|^\s*(?:def|class|try|async def|@\w+)\b.*:?$|^\s*\w+ = |^\s*#", re.M
)
_FOOTNOTE = re.compile(r"^\[\d+\]\s|^-\[")
_FOOTNOTE_MARK = re.compile(r"\s+\[\d+\]")
_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_EMPHASIS = re.compile(r"(?<![\w*\"'])\*(?=[^\s*])([^*]+?)(?<=[^\s*])\*(?![\w*\"'])")
_WHOLE_SENTENCE = re.compile(r"[.!?][\"”’)\]]*$")
_WORD = re.compile(r"[A-Za-z’']{2,}")
MIN_WORDS = 6
MIN_LETTER_SHARE = 0.68  # of a paragraph's characters without spaces; code and signatures have less


def plain_paragraphs(raw: str) -> Iterator[str]:
    """Prose paragraphs of one topic, each on one line, without markup.

    Grammar, examples and the lines that lead to them, tables, signatures, version notes, footnotes and anything else
    that doesn't read like prose is left out.

    Parameters
    ----------
    raw : str
        Text as the documentation builder writes it: underlined headings, blocks parted by blank lines.
    """
    for block in re.split(r"\n\s*\n", raw):
        for item in _items(block):
            paragraph = _reflowed(item)
            if _is_prose(item, paragraph):
                yield paragraph


def _items(block: str) -> Iterator[list[str]]:
    """The block without heading lines, parted where a bullet starts a new item."""
    item: list[str] = []
    lines = block.split("\n")
    for i, line in enumerate(lines):
        heading = i + 1 < len(lines) and _UNDERLINE.match(lines[i + 1].strip()) and len(lines[i + 1]) >= len(line) - 1
        if heading or _UNDERLINE.match(line.strip()):
            continue
        if item and _BULLET.match(line.strip()):
            yield item
            item = []
        item.append(line)
    if item:
        yield item


def _reflowed(lines: list[str]) -> str:
    if len(lines) > 1 and not _BULLET.match(lines[0].strip()) and _indent(lines[0]) < _indent(lines[1]):
        lines = [lines[0].rstrip(" .:") + ".", *lines[1:]]  # a term and its definition
    text = " ".join(line.strip() for line in lines)
    text = re.sub(r"(?<=[a-z])- (?=[a-z])", "-", text)  # a compound broken at its hyphen
    text = _BULLET.sub("", text)
    text = _EMPHASIS.sub(r"\1", _STRONG.sub(r"\1", text))
    return re.sub(r"\s+", " ", _FOOTNOTE_MARK.sub("", text)).strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_prose(lines: list[str], paragraph: str) -> bool:
    raw = "\n".join(lines)
    if _CODE.search(raw) or _FOOTNOTE.match(raw.strip()) or _VERSION_NOTE.match(paragraph):
        return False
    if not _WHOLE_SENTENCE.search(paragraph) or paragraph[0].islower():
        return False
    letters = sum(char.isalpha() for char in paragraph)
    visible = len(paragraph) - paragraph.count(" ")
    return len(_WORD.findall(paragraph)) >= MIN_WORDS and letters >= MIN_LETTER_SHARE * visible
