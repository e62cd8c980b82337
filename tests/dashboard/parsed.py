"""Pages as those read them who see no picture: their tables, links, titles and text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_VOID = {"input", "meta", "link", "br", "img", "hr"}


class Parsed(HTMLParser):
    """A page.

    Attributes:
        tables: The rows of each table, by its caption; a row is the texts of its cells.
        links: Where links lead, by their texts; of several the first.
        titles: The titles of what is drawn.
        text: All of its text, with single spaces.
        open: The elements that were not closed.
    """

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.links: dict[str, str] = {}
        self.titles: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self._table: list[list[str]] = []
        self._parts: dict[str, list[str]] = {}
        self._href = ""
        self.feed(answer.text)
        self.close()
        self.text = _plain([self.text])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        self.open.append(tag)
        self._parts[tag] = []
        if tag == "table":
            self._table = []
        elif tag == "tr":
            self._table.append([])
        elif tag == "a":
            self._href = dict(attrs).get("href") or ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """What is closed at once holds nothing."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        text = _plain(self._parts[tag])
        if tag == "caption":
            self.tables[text] = self._table
        elif tag in ("td", "th"):
            self._table[-1].append(text)
        elif tag == "a":
            self.links.setdefault(text, self._href)
        elif tag == "title" and "svg" in self.open:
            self.titles.append(text)

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"
        for tag in set(self.open):
            self._parts[tag].append(data)

    def rows(self, caption: str) -> list[list[str]]:
        """The rows of a table behind that of its headings; not one that says: none."""
        [found] = [rows for name, rows in self.tables.items() if caption in name]
        return [row for row in found[1:] if len(row) > 1]


def _plain(parts: list[str]) -> str:
    return re.sub(r"\s+", " ", "".join(parts)).strip()
