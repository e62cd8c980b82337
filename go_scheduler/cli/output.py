"""Prints tables and lines for people, and JSON for scripts."""

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
"""The least width of a readable column, with the space before it."""


class OutputError(GoSchedulerError):
    """The output cannot be written."""


def line(text: str) -> None:
    """Print one or more lines for people to read."""
    _write(safe(text) + "\n")


def document(value: Mapping[str, object]) -> None:
    """Print one JSON object, on a line of its own."""
    separators = (",", ":")
    text = json.dumps(value, ensure_ascii=False, separators=separators)
    if _encoded(text) != text:
        text = json.dumps(value, separators=separators)
    _write(f"{text}\n")


def note(text: str) -> None:
    """Print a message on standard error."""
    # A message that cannot be written does not fail the command.
    with suppress(OSError):
        sys.stderr.write(safe(text) + "\n")
        sys.stderr.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, fitted to the width of a terminal.

    A terminal that is too narrow for all columns wraps the lines itself.
    """
    # Imported here: only tables need it.
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
    """An instant for people to read."""
    if instant is None:
        return "-"
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"


def _write(text: str) -> None:
    try:
        sys.stdout.write(_encoded(text))
        sys.stdout.flush()
    except OSError as error:
        # The rest of the buffer goes to the null device when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        raise OutputError(f"the output cannot be written: {error.strerror}") from None


def _encoded(text: str) -> str:
    """A text with escapes for characters that the output cannot encode."""
    encoding = sys.stdout.encoding
    return text.encode(encoding, "backslashreplace").decode(encoding)
