"""Prints tables, lines and details for people, JSON for scripts; asks to confirm."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import typer

from go_scheduler.cli.options import ExitCode
from go_scheduler.errors import ConfigurationError, GoSchedulerError
from go_scheduler.formatting import safe, write_duration
from go_scheduler.json import write_instant
from go_scheduler.models import POLICIES, NodeInfo, TaskDefinition, TaskInstance
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.previews import describe_with_zone

if TYPE_CHECKING:
    from go_scheduler.http.jobs import TypeAnswer
    from go_scheduler.models import Stage, TaskRun


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
    from go_scheduler.client.on_demand import Backfill
    from go_scheduler.http import bodies
    from go_scheduler.triggers.previews import PreviewedTime
    from go_scheduler.why import Why

    answers: Mapping[type, Any] = {
        TaskDefinition: bodies.DefinitionAnswer,
        TaskInstance: bodies.InstanceAnswer,
        Backfill: bodies.BackfillAnswer,
        NodeInfo: bodies.NodeAnswer,
        PreviewedTime: bodies.PreviewedAnswer,
        Why: bodies.WhyAnswer,
    }
    answer = answers.get(type(value))
    # A type of jobs is an answer of the server already.
    body: Any = value if answer is None else answer.of(value)
    found: Mapping[str, Any] = body.model_dump(mode="json", by_alias=True)
    return found


def document(value: object) -> None:
    """Print one JSON object, on a line of its own."""
    separators = (",", ":")
    dumps = partial(json.dumps, json_of(value), default=_plain, separators=separators)
    text = dumps(ensure_ascii=False)
    if _encoded(text) != text:
        text = dumps()
    _write(f"{text}\n")


def _plain(value: object) -> object:
    """A part of a mapping, as the server answers it."""
    if isinstance(value, datetime):
        return write_instant(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, UUID) else json_of(value)


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


_WIDTH = 16


def described(trigger: Trigger) -> str:
    """A trigger in words; a user's trigger may fail or hang."""
    try:
        return describe_with_zone(trigger)
    except Exception as error:
        return f"a trigger that does not say when: {error}"


def text_of(value: object) -> str | None:
    """The value of a field as text; None stays None."""
    if isinstance(value, Trigger):
        return described(value)
    if isinstance(value, datetime):
        return at(value)
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    return None if value is None else str(value)


def definition_lines(definition: TaskDefinition) -> Sequence[str]:
    """The lines of a definition, without empty fields."""
    return _lines(
        {
            "definition": definition.id,
            "key": definition.key,
            "name": definition.name,
            "runs": definition.trigger,
            "state": definition.state.value,
            "next fire time": definition.next_fire_time,
            "paused since": definition.paused_at,
            "note": definition.note,
            "completed at": definition.completed_at,
            "queue": definition.queue,
            "priority": definition.priority,
            "owner": definition.owner,
            "metadata": definition.metadata or None,
            **_policies_of(definition),
            "revision": definition.revision,
        }
    )


def _policies_of(of: TaskDefinition | TypeAnswer) -> Mapping[str, object]:
    found = {each.replace("_", " "): getattr(of, each, None) for each in POLICIES}
    return {**found, "when full": of.max_queue and of.when_full}


def standing(instance: TaskInstance) -> str:
    """The state of an instance, and the stage of its run on a bus."""
    stage = _stage(instance)
    return instance.state.value + ("" if stage is None else f" ({stage.value})")


def instance_lines(instance: TaskInstance, runs: Sequence[TaskRun]) -> Sequence[str]:
    """The lines of an instance and of its failed runs."""
    skipped = instance.skipped
    lines = _lines(
        {
            "instance": instance.id,
            "name": instance.definition.label,
            "definition": instance.definition.id,
            "state": instance.state.value,
            "fire time": instance.fire_time,
            "executes at": instance.execute_at,
            "due at": instance.due_at,
            "queue": instance.definition.queue,
            "runs": instance.runs,
            "attempt": instance.attempt,
            "node": instance.claimed_by,
            "worker": instance.worker,
            "stage": _stage(instance),
            "started at": instance.started_at,
            "completed at": instance.completed_at,
            "payload": instance.payload or None,
            "progress": _json(instance.progress),
            "result": _json(instance.result),
            "key": instance.key,
            "waits": "for another instance to end" if instance.parked else None,
            "cancel": "requested" if instance.cancel_requested else None,
            "skipped": None
            if skipped is None
            else f"{skipped.count}, {at(skipped.first)} to {at(skipped.last)}:"
            f" {skipped.reason}",
            "error": instance.error,
        }
    )
    ended = [
        f"run {each.attempt} {each.outcome.value} at {at(each.ended_at)}"
        for each in runs
    ]
    return [*lines, *ended]


def type_lines(type: TypeAnswer) -> Sequence[str]:
    """The lines of a type of jobs, without empty fields."""
    retry = type.retry
    return _lines(
        {
            "type": type.type,
            "description": type.description or None,
            "runs": runs_where(type),
            "queue": type.queue,
            "priority": type.priority,
            "definition": type.definition_id,
            "owner": type.owner,
            "paused": "yes" if type.paused else None,
            **_policies_of(type),
            "retry": None if retry is None else retry.policy("retry"),
            "schema": type.payload_schema or None,
            "revision": type.revision,
        }
    )


def runs_where(type: TypeAnswer) -> str:
    """Who runs the jobs of a type."""
    if type.over_bus:
        return "by workers on a bus"
    return "by the server" if type.runs_here else "by workers"


def _lines(given: Mapping[str, object]) -> Sequence[str]:
    texts = {name: text_of(value) for name, value in given.items()}
    return [
        f"{name:{_WIDTH}}{_indented(text)}"
        for name, text in texts.items()
        if text is not None
    ]


def _indented(text: str) -> str:
    return text.rstrip().replace("\n", "\n" + " " * _WIDTH)


def _json(value: object) -> str | None:
    """A JSON value, which may be a text, zero or empty."""
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _stage(instance: TaskInstance) -> Stage | None:
    """The stage of a run on a bus; None after its end."""
    return None if instance.completed_at else instance.stage
