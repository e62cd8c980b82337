"""The tables of cases, a line each, with a bar between the columns."""

from __future__ import annotations

from pathlib import Path


def table(name: str) -> list[list[str]]:
    """The rows of a table. A line without a bar is a title.

    In a cell, ``\\n`` is the end of a line.
    """
    text = (Path(__file__).parent / "tables" / f"{name}.txt").read_text("utf-8")
    return [
        [cell.strip(" ").replace("\\n", "\n") for cell in line.split("|")]
        for line in text.splitlines()
        if "|" in line
    ]
