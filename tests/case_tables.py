"""The tables of cases: a line for each case, with a bar between the columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def table(name: str) -> list[list[str]]:
    """The rows of a table, such as ``triggers/cron_refusals``. Other lines are titles.

    In a cell, ``\\n`` is the end of a line.
    """
    folder, _, file = name.rpartition("/")
    path = Path(__file__).parent / folder / "tables" / f"{file}.txt"
    return [
        [cell.strip(" ").replace("\\n", "\n") for cell in line.split("|")]
        for line in path.read_text("utf-8").splitlines()
        if "|" in line
    ]


def json_table(name: str) -> list[list[Any]]:
    """The rows of a table whose first column is JSON."""
    return [[json.loads(first, strict=False), *rest] for first, *rest in table(name)]
