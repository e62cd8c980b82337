"""Reads definitions and jobs: from a module, or the lines of a file, as an import."""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from rich.console import Console
from rich.progress import Progress

from go_scheduler.client import Client
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError, GoSchedulerError, StoreError
from go_scheduler.formatting import shown
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.http.bodies import DefinitionPut
from go_scheduler.http.problems import Problem, field_errors
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.triggers import DelayTrigger, IntervalTrigger, OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.cli.options import Connected
    from go_scheduler.http.remote import Remote
    from go_scheduler.http.staggering import Spread
    from go_scheduler.triggers import Trigger


_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"
"""Blanks, and the byte order mark of some editors."""


@contextmanager
def lines_of(file: Path) -> Iterator[tuple[Iterable[bytes], Callable[[int], None]]]:
    """The lines of a file or of standard input; on a terminal with a progress bar.

    The second value is a function to call with the number of bytes done.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    with ExitStack() as stack:
        if str(file) == "-":
            stream, size = sys.stdin.buffer, None
        else:
            try:
                stream = stack.enter_context(file.open("rb"))
            except OSError as error:
                raise ConfigurationError(
                    f"{file} cannot be read: {error.strerror}"
                ) from None
            size = file.stat().st_size
        console = Console(stderr=True)
        progress = stack.enter_context(
            Progress(console=console, disable=not console.is_terminal, transient=True)
        )
        task = progress.add_task("importing", total=size)
        yield stream, lambda settled: progress.update(task, completed=settled)


def parts_of(stream: Iterable[bytes]) -> tuple[str, Iterable[bytes]]:
    """Split a file into lines, or a JSON array into items; returns their name first.

    Raises:
        ConfigurationError: The file begins like an array but is none.
    """
    rest, head = iter(stream), []
    for each in rest:
        head.append(each)
        if each.strip(_BEFORE_JSON):
            break
    first = head[-1] if head else b""
    if not first.lstrip(_BEFORE_JSON).startswith(b"["):
        return "line", chain(head, rest)
    head += rest
    try:
        items = json.loads(b"".join(head).lstrip(_BEFORE_JSON))
    except (ValueError, RecursionError) as error:
        if _is_json(first):
            return "line", head
        raise ConfigurationError(
            f"it begins like a JSON array, but is none: {error}"
        ) from None
    return "item", [json.dumps(each).encode() for each in items]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


_COUNTED = ("definitions", "jobs", "known", "dropped", "wrong")
_COMPLETED = DefinitionState.COMPLETED
_LINES = 500
_BYTES = 1024 * 1024


class Imported:
    """An import, and its counts.

    Args:
        client: Takes definitions.
        remote: Takes jobs, for the same store.
        name: The name of the import. With the same name nothing is made twice.
        spread: The times of jobs without a time.
        called: The word for a line in messages.

    Attributes:
        counts: The numbers of new definitions and jobs, of known ones, of jobs that a
            full queue has dropped, and of wrong lines.
        size: How many bytes are done.
    """

    def __init__(
        self,
        client: Connected,
        remote: Remote,
        name: str,
        spread: Spread,
        called: str = "line",
    ) -> None:
        self.counts = dict.fromkeys(_COUNTED, 0)
        self.size = 0
        self._called = called
        self._client = client
        self._remote = remote
        self._asked = {"import": name, "on_error": "skip", **_asked(spread)}
        self._definitions: list[tuple[int, TaskDefinition]] = []
        self._jobs: list[bytes] = []
        self._wrong: dict[int, str] = {}
        self._now = SystemClock().now()
        self._spread = spread

    def take(self, lines: Iterable[bytes]) -> Iterator[Sequence[str]]:
        """Import lines, batch by batch; yields the messages of each batch."""
        number = size = 0
        for number, each in enumerate(lines, 1):
            # An empty line replaces a line that is no job, to keep the numbers.
            self._jobs.append(
                each.rstrip(b"\r\n") if self._is_job(number, each) else b""
            )
            size += len(each)
            if len(self._jobs) == _LINES or size >= _BYTES:
                yield self._put(number, size)
                size = 0
        yield self._put(number, size)

    def _is_job(self, number: int, text: bytes) -> bool:
        """Whether a line is a job; a definition is added to the batch."""
        if not text.strip():
            return False
        try:
            line = _read(text)
            if "type" in line:
                return True
            definition = _definition(_body(line), self._now)
            self._definitions.append((number, self._imported(number, definition)))
        except ConfigurationError as error:
            self._wrong[number] = str(error)
        return False

    def _imported(self, number: int, definition: TaskDefinition) -> TaskDefinition:
        """A definition with the defaults of the import."""
        if not definition.named:
            id = TaskDefinition.id_for(f"import {self._asked['import']}:{number}")
            definition = replace(definition, id=id, named=True)
        trigger = self._staggered(number, definition.trigger)
        jitter = definition.jitter
        if jitter is None and not isinstance(trigger, OnDemandTrigger):
            jitter = self._spread.jitter or None
        return replace(definition, trigger=trigger, jitter=jitter)

    def _staggered(self, number: int, trigger: Trigger) -> Trigger:
        """A trigger with a staggered first fire time."""
        spread = self._spread
        if spread.start is None and spread.window is None and spread.interval is None:
            return trigger
        try:
            first = (spread.start or self._now) + spread.offset(number)
        except OverflowError:
            raise ConfigurationError(
                "it would first fire in a year that no calendar has"
            ) from None
        if (
            isinstance(trigger, IntervalTrigger)
            and trigger.anchor is None
            # A phrase without a start counts from now.
            and trigger.anchored_at in (None, self._now)
        ):
            return replace(trigger, anchored_at=first)
        if isinstance(trigger, DelayTrigger) and trigger.first_at is None:
            return replace(trigger, first_at=first)
        return trigger

    def _put(self, last: int, size: int) -> Sequence[str]:
        """Import a batch, definitions first; returns its messages."""
        batches: dict[int | None, list[tuple[int, TaskDefinition]]] = {}
        for number, each in self._definitions:
            batch = None if self._is_batched(each) else number
            batches.setdefault(batch, []).append((number, each))
        for definitions in batches.values():
            self._put_definitions(definitions)
        self._definitions = []
        if any(self._jobs):
            self._put_jobs(first=last - len(self._jobs) + 1)
        self._jobs = []
        self.size += size
        wrong, self._wrong = self._wrong, {}
        self.counts["wrong"] += len(wrong)
        return [f"{self._called} {number}: {wrong[number]}" for number in sorted(wrong)]

    def _put_definitions(self, batch: Sequence[tuple[int, TaskDefinition]]) -> None:
        """Put definitions all together, or one by one if one is wrong."""
        try:
            # Warnings about triggers are for the authors of code.
            with warnings.catch_warnings(action="ignore"):
                made = self._made([each for _, each in batch])
        except StoreError:
            raise
        except GoSchedulerError as error:
            if len(batch) == 1:
                self._wrong[batch[0][0]] = str(error)
                return
            for each in batch:
                self._put_definitions([each])
        else:
            self.counts["definitions"] += made
            self.counts["known"] += len(batch) - made

    def _is_batched(self, definition: TaskDefinition) -> bool:
        """Whether it can be put with others, all or none.

        A server takes one at a time, and only a server puts it into a declared set.
        """
        return isinstance(self._client, Client) and definition.owner is None

    def _made(self, definitions: Sequence[TaskDefinition]) -> int:
        """Put definitions, all or none; returns how many are new."""
        if self._is_batched(definitions[0]):
            ids = [each.id for each in definitions]
            found = self._client.list_definitions(ids=ids, limit=len(ids))
            known = {each.id for each in found}
            put = self._client.schedule_all(definitions)
            told = [(each, each.id not in known) for each in put]
        else:
            told = [self._remote.put(each) for each in definitions]
        # A definition with a tombstone does not start again.
        return sum(new and each.state is not _COMPLETED for each, new in told)

    def _put_jobs(self, first: int) -> None:
        asked = {**self._asked, "first": first}
        events = self._remote.import_jobs(b"\n".join(self._jobs), asked)
        for each in events:
            if each["event"] == "started":
                # All batches use the same start, however long they take.
                self._asked["start"] = each["start"]
            elif each["event"] == "refused":
                self._wrong[each["line"]] = _refusal(each)
        ended = events[-1]
        self.counts["jobs"] += ended["made"]
        self.counts["known"] += ended["known"]
        self.counts["dropped"] += ended["dropped"]
        if ended["event"] != "done":
            raise StoreError(ended["detail"].partition("; what was made stays")[0])


def _asked(spread: Spread) -> dict[str, Any]:
    """The parameters of an import for a spread."""
    lengths = {each: getattr(spread, each) for each in ("window", "interval", "jitter")}
    return {
        "start": None if spread.start is None else spread.start.isoformat(),
        **{k: None if v is None else v.total_seconds() for k, v in lengths.items()},
    }


def _read(text: bytes) -> Mapping[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict) or ("trigger" in line) == ("type" in line):
        raise ConfigurationError(
            "it must be a JSON object with a trigger, for a definition, or with a"
            " type, for a job"
        )
    return line


def _refusal(event: Mapping[str, Any]) -> str:
    told = [
        f"{each['field']}: {each['detail']}" if each["field"] else each["detail"]
        for each in event["errors"]
    ]
    return "; ".join(told) or str(event["detail"])


def _body(line: Mapping[str, Any]) -> DefinitionPut:
    try:
        return DefinitionPut.model_validate(line)
    except ValidationError as error:
        found = [
            told
            for each in error.errors()
            for told in field_errors({**each, "loc": ("line", *each["loc"])})
        ]
        raise ConfigurationError(_refusal({"errors": found})) from None


def _definition(body: DefinitionPut, now: Any) -> TaskDefinition:
    try:
        definition = body.definition(now, revision=body.revision)
        return replace(definition, owner=body.owner)
    except Problem as problem:
        raise ConfigurationError(problem.detail) from None


def declared(source: str, now: datetime) -> Sequence[TaskDefinition]:
    """Read the definitions of a source.

    Args:
        source: ``module:name`` of a list of definitions, of a function without
            arguments that returns one, or of a registry with tasks; or a file of JSON
            lines, as for ``go_scheduler import``.
        now: The present time, from which phrases without a date count.

    Raises:
        ConfigurationError: The source is something else, or a definition is wrong.
    """
    from go_scheduler.http.configuration.imported import imported

    path = Path(source)
    if path.is_file():
        return list(_lines(path, now))
    if ":" not in source:
        raise ConfigurationError(
            f"there is no file {source}; definitions in a module are named as"
            " myapp.jobs:definitions"
        )
    found = imported(source)
    if isinstance(found, HandlerRegistry):
        return [each.definition for each in found.tasks.values()]
    if callable(found):
        try:
            found = found()
        except Exception as error:
            raise ConfigurationError(
                f"{source}, called without arguments, raised {type(error).__name__}:"
                f" {error}"
            ) from error
    if not isinstance(found, list | tuple) or not all(
        isinstance(each, TaskDefinition) for each in found
    ):
        raise ConfigurationError(
            f"{source} must be a list of definitions, a function that returns one, or a"
            f" HandlerRegistry, not {shown(found)}"
        )
    return found


def _lines(path: Path, now: datetime) -> Iterable[TaskDefinition]:
    for number, each in enumerate(path.read_bytes().splitlines(), 1):
        if not each.strip():
            continue
        try:
            line = _read(each)
            if "type" in line:
                raise ConfigurationError("it is a job, and must be a definition")
            yield _definition(_body(line), now)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, line {number}: {error}") from None
