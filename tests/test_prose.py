"""The pages are in plain English: short sentences, and no coined words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONGEST = 30
MOST_WORDS = 2_500
# These are looked things up in, or made by a program.
LONG = {
    "command-line.md",
    "dispatch.md",
    "proof.md",
    "reference.md",
    "server.md",
    "stores.md",
    "write-a-store.md",
}
INSTEAD = {
    "all the same": "anyway, still",
    "as ever": "as always",
    "called elsewhere": "glossary",
    "did it all run": "audit",
    "how far it goes": "capacity",
    "is it well": "health checks",
    "it did not fire": "troubleshooting",
    "likewise": "also, the same",
    "looks that find nothing": "polling",
    "mind the": "check the",
    "of late": "recently",
    "who may do what": "authentication",
    "who says so": "a caller that",
}
NO_PROSE = re.compile(
    r"^ *```.*?^ *```$|<!-- runs -->.*?<!-- end of runs -->|<!--.*?-->|"
    r"^(?:\||:::|#|!\[|=== ).*?$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")
SENTENCE = re.compile(r"(?<=[.!?])[*_)\"”]*\s+|(?<=:)\s+")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(text: str) -> Iterator[str]:
    """The paragraphs and items of a page, without code, tables and addresses."""
    for block in BLOCK.split(LINK.sub(r"\1", NO_PROSE.sub("\n", text))):
        yield " ".join(block.split())


def long_sentences(text: str) -> list[str]:
    sentences = [each for block in blocks(text) for each in SENTENCE.split(block)]
    return [each for each in sentences if len(each.split()) > LONGEST]


def coined(text: str) -> list[str]:
    found = " ".join(blocks(text)).lower()
    return [each for each in INSTEAD if re.search(rf"\b{each}\b", found)]


@each_page
def test_no_sentence_is_long(page: Path) -> None:
    assert long_sentences(page.read_text()) == []


@each_page
def test_no_word_is_a_coined_one(page: Path) -> None:
    found = coined(page.read_text())
    assert found == [], [INSTEAD[each] for each in found]


@pytest.mark.parametrize(
    "page",
    [each for each in PAGES if each.name not in LONG],
    ids=lambda page: page.name,
)
def test_no_page_is_long(page: Path) -> None:
    assert len(page.read_text().split()) <= MOST_WORDS


def test_what_is_asked_of_the_pages_can_fail() -> None:
    long = "a " * LONGEST + "word."
    assert long_sentences(f"It is short.\n\n- It is *{long}*\n") == [
        f"- It is *{long}*"
    ]
    assert long_sentences(f"```text\n{long}\n```\n\n| {long} |\n") == []
    assert coined("It fires\nall the same, as everywhere.") == ["all the same"]
