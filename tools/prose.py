"""Is the prose of README and guides plain? Prints the longest sentences; exit status 1 if a page breaks a rule.

    python tools/prose.py [PAGE.md ...]

The rules are those of CONTRIBUTING.md that a program can check. Code, headings and addresses of links do not count;
every cell of a table is a paragraph of its own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
WORDS_A_SENTENCE = 35
NUMBERS_A_PARAGRAPH = 8
LINES_A_PAGE = 120
LINES_OF_ALL_GUIDES = 1200

#: What a reader has to guess the meaning of, and what to write instead.
RIDDLES = {
    r"\basked\b": "say who wants what",
    r"\bjudged?\b": "say how it is measured or chosen",
    r"\b(?:are|is) here\b": "say where, or: exists",
    r"\bstands?\b(?! for)": "is, has",
    r"\bfor want of\b": "because there is no",
    r"\bnothing comes of\b": "has no effect",
    r"\b(?:save|but) for\b": "except",
    r"\blikewise\b": "in the same way, or say it again",
}


class Paragraph(NamedTuple):
    """A paragraph, an item of a list or a cell of a table, without markup."""

    line: int
    text: str


def paragraphs(page: str) -> Iterator[Paragraph]:
    """The prose of a page in Markdown; code and headings are left out."""
    begun, parts, fenced = 0, list[str](), False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        fence = line.startswith("```")
        item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if parts and (fence or item or not line.strip() or line.startswith(("|", "#"))):
            yield Paragraph(begun, " ".join(parts))
            parts = []
        if fence or fenced:
            fenced ^= fence
        elif line.startswith("|"):
            yield from (Paragraph(number, plain(cell)) for cell in line.strip("|").split("|") if re.search(r"\w", cell))
        elif line.strip() and not line.startswith(("#", "![")) and (parts or item or not line.startswith("    ")):
            begun = begun if parts else number
            parts.append(plain(line[item.end() :] if item else line).strip())


def plain(line: str) -> str:
    """Without addresses of links and marks of emphasis; a piece of code becomes one word."""
    line = re.sub(r"`[^`]*`", "CODE", line)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).replace("*", "")


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z(])", text)


def words(sentence: str) -> int:
    """How many words a sentence has; numbers and code count, signs do not."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def faults(page: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that break a rule, with what is wrong there."""
    for line, text in paragraphs(page):
        numbers = len(re.findall(r"(?<![\w.-])[+−-]?\d[\d.,]*", text))
        if numbers > NUMBERS_A_PARAGRAPH:
            yield line, f"{numbers} numbers in a paragraph, at most {NUMBERS_A_PARAGRAPH}: make a table"
        for sentence in sentences(text):
            if words(sentence) > WORDS_A_SENTENCE:
                yield line, f"{words(sentence)} words in a sentence, at most {WORDS_A_SENTENCE}: {sentence[:60]} …"
        for riddle, instead in RIDDLES.items():
            if found := re.search(riddle, text):
                yield line, f"{found[0]!r}: {instead}"
    if (lines := page.count("\n")) > LINES_A_PAGE:
        yield lines, f"{lines} lines, at most {LINES_A_PAGE}: two pages, or move details to the reference"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check pages, by default README and guides; the exit status."""
    guides = sorted((ROOT / "docs" / "guide").glob("*.md"))
    given = [Path(name) for name in (sys.argv[1:] if arguments is None else arguments)]
    chosen = given or [ROOT / "README.md", *guides]
    pages = {os.path.relpath(path): path.read_text(encoding="utf-8") for path in chosen}
    found = [f"{path}:{line}: {what}" for path, page in pages.items() for line, what in faults(page)]
    lines = sum(guide.read_text(encoding="utf-8").count("\n") for guide in guides)
    if not given and lines > LINES_OF_ALL_GUIDES:
        found.append(f"docs/guide: {lines} lines in all, at most {LINES_OF_ALL_GUIDES}")
    longest = sorted(
        ((words(each), f"{path}:{line}", each) for path, page in pages.items() for line, text in paragraphs(page)
         for each in sentences(text)), reverse=True,
    )  # fmt: skip
    for count, place, sentence in longest[:10]:
        print(f"{count} words  {place}  {sentence[:90]}")
    sys.stderr.write("".join(f"{each}\n" for each in found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
