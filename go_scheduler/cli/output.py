"""What commands print: tables and lines for people, JSON for scripts."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING

import typer

from go_scheduler.cli.options import ExitCode
from go_scheduler.errors import GoSchedulerError
from go_scheduler.formatting import safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

_WIDE = 10_000
_LEAST = 4
"""What a column takes that still can be read, with the space before it."""


class OutputError(GoSchedulerError):
    """What was found cannot be written where it is to go."""


def line(text: str) -> None:
    """Print a line, or some, for people to read."""
    _write(safe(text) + "\n")


def document(value: Mapping[str, object]) -> None:
    """Print one JSON object, on a line of its own."""
    separators = (",", ":")
    text = json.dumps(value, ensure_ascii=False, separators=separators)
    if _encoded(text) != text:
        text = json.dumps(value, separators=separators)
    _write(f"{text}\n")


def note(text: str) -> None:
    """Tell the user of something beside the output, on standard error."""
    # Where nothing can be told, what was done is done all the same.
    with suppress(OSError):
        sys.stderr.write(safe(text) + "\n")
        sys.stderr.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their headings: as wide as a terminal is, else as they are.

    A terminal that is too narrow for all columns wraps the lines itself.
    """
    # Imported here: what prints no table needs none of it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    printed = StringIO()
    console = Console(
        file=printed,
        width=None if is_terminal else _WIDE,
        force_terminal=is_terminal,
        no_color=True if os.environ.get("NO_COLOR") else None,
        highlight=False,
    )
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for index, each in enumerate(columns):
        shown.add_column(each, overflow="fold", no_wrap=index == 0)
    for row in rows:
        shown.add_row(*(Text(safe(each).replace("\n", " ")) for each in row))
    first = max(len(each[0]) for each in (columns, *rows))
    if console.width < first + _LEAST * (len(columns) - 1):
        console.width = _WIDE
    console.print(shown)
    _write("".join(f"{each.rstrip()}\n" for each in printed.getvalue().splitlines()))


def at(instant: datetime | None) -> str:
    """An instant as people read it."""
    if instant is None:
        return "-"
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"


def _write(text: str) -> None:
    try:
        sys.stdout.write(_encoded(text))
        sys.stdout.flush()
    except OSError as error:
        # What is still to be written when the process ends goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        raise OutputError(f"the output cannot be written: {error.strerror}") from None


def _encoded(text: str) -> str:
    """A text as it can be written: what the terminal does not know by its number."""
    encoding = sys.stdout.encoding
    return text.encode(encoding, "backslashreplace").decode(encoding)
