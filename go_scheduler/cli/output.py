"""Prints tables and lines for people, and JSON for scripts; asks before changes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from go_scheduler.cli.options import ExitCode
from go_scheduler.errors import ConfigurationError, GoSchedulerError
from go_scheduler.formatting import safe
from go_scheduler.models import NodeInfo, TaskDefinition, TaskInstance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

_Item = TypeVar("_Item")
_WIDE = 10_000
_LEAST = 4
"""The least width of a readable column, with the space before it."""


class OutputError(GoSchedulerError):
    """The output cannot be written."""


def line(text: str) -> None:
    """Print one or more lines for people to read."""
    _write(safe(text) + "\n")


def json_of(value: object) -> Mapping[str, Any]:
    """A value as the server answers it; a mapping stays as it is."""
    if isinstance(value, Mapping):
        return value
    # Imported here, as it takes long.
    from go_scheduler.http.bodies import definitions, instances
    from go_scheduler.triggers.previews import PreviewedTime
    from go_scheduler.why.answer import Why

    answers: Mapping[type, Any] = {
        TaskDefinition: definitions.DefinitionAnswer,
        TaskInstance: instances.InstanceAnswer,
        NodeInfo: instances.NodeAnswer,
        PreviewedTime: instances.PreviewedAnswer,
        Why: instances.WhyAnswer,
    }
    answer = answers.get(type(value))
    # A type of jobs is an answer of the server already.
    body: Any = value if answer is None else answer.of(value)
    found: Mapping[str, Any] = body.model_dump(mode="json", by_alias=True)
    return found


def document(value: object) -> None:
    """Print one JSON object, on a line of its own."""
    separators = (",", ":")
    found = json_of(value)
    text = json.dumps(found, ensure_ascii=False, separators=separators)
    if _encoded(text) != text:
        text = json.dumps(found, separators=separators)
    _write(f"{text}\n")


def print_one(value: object, text: str, *, json: bool) -> None:
    """Print a value as JSON, or else a text for people."""
    if json:
        document(value)
    else:
        line(text)


def print_all(
    found: Iterable[_Item],
    columns: Mapping[str, Callable[[_Item], str]],
    *,
    json: bool,
) -> None:
    """Print JSON objects, or else a table with a row for each item.

    Args:
        found: The items.
        columns: By the heading of each column, what makes the text of an item.
        json: Whether to print JSON.
    """
    if json:
        for each in found:
            document(each)
    else:
        rows = [[text(each) for text in columns.values()] for each in found]
        table([*columns], rows)


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


def confirm(question: str, count: int, *, yes: bool) -> None:
    """Ask the user before a change of more than one thing.

    Args:
        question: For example ``delete 12 definitions``.
        count: The number of things.
        yes: Whether the user has agreed by ``--yes``.

    Raises:
        ConfigurationError: There is no terminal to ask.
        typer.Exit: The user said no.
    """
    if yes or count <= 1:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(f"to {question}, say --yes")
    if not typer.confirm(f"{question}?", err=True):
        note("nothing was done")
        raise typer.Exit(ExitCode.NOT_SO)


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
