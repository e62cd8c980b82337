"""Writes jobs: one, many at once, or each line of an import."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Never, cast
from uuid import uuid4

from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from go_scheduler.checks import check_at_least
from go_scheduler.client.arguments import Job
from go_scheduler.client.store_access import on_thread
from go_scheduler.clock import ZERO
from go_scheduler.errors import GoSchedulerError, TaskDefinitionNotFoundError
from go_scheduler.http.bodies.body import of_field
from go_scheduler.http.bodies.jobs import JobBody
from go_scheduler.http.jobs.known_types import check_type_name, no_type
from go_scheduler.http.jobs.staggering import Spread, drawn
from go_scheduler.http.problems import (
    FieldError,
    Problem,
    invalid,
    key_taken,
    mismatch,
    problem_of,
)
from go_scheduler.json import write_instant
from go_scheduler.models import OVERRIDABLE, State
from go_scheduler.stores.messages import Addition
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Iterator,
        Mapping,
        Sequence,
    )
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.client import Client
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.bodies.jobs import ImportQuery
    from go_scheduler.http.context import Context
    from go_scheduler.http.jobs.known_types import KnownType, KnownTypes
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A job that is checked and ready to be written.

    Attributes:
        type: The name of its type.
        job: Its time, payload and key, and the settings of its own.
    """

    type: str
    job: Job


def planned(
    body: JobBody,
    of: KnownType,
    caller: Caller,
    *,
    key: str | None,
    number: int,
    spread: Spread,
) -> Planned:
    """Check a job, and plan how it is written.

    Args:
        body: The body of the request.
        of: Its type.
        caller: The caller.
        key: Its key; None: it has none.
        number: Its number in an import.
        spread: Its time if it names none.

    Raises:
        Problem: The job is wrong, or the caller may not submit it.
    """
    base, settings = of.base(caller), body.settings()
    caller.check_queue(settings.get("queue", base.queue))
    # The client converts payloads of tasks of its own.
    payload = of.checked(body.payload) or None
    new = uuid4()
    at, delay = _when(body, spread, number, key or str(new))
    job = Job(
        id=new,
        payload=payload if of.task is None else body.payload,
        at=at,
        delay=delay,
        key=key,
        overrides=settings or None,
    )
    _check(job)
    return Planned(type=body.type, job=job)


def _check(job: Job) -> None:
    """Refuse a wrong job before any job of its batch is written."""
    with of_field("", ("at", "delay", "key", "payload", *OVERRIDABLE)):
        Addition(
            at=job.at,
            delay=job.delay or ZERO,
            payload=cast("Mapping[str, JSON] | None", job.payload),
            key=job.key,
            overrides=job.overrides,
        )


def _when(
    body: JobBody, spread: Spread, number: int, seed: str
) -> tuple[datetime | None, timedelta | None]:
    """The time or the delay of a job."""
    if body.at is not None and body.delay is not None:
        raise invalid("delay", "say when by at or by delay, and not by both")
    for name, least in (("jitter", body.jitter), ("delay", body.delay)):
        if least is not None:
            with of_field(name):
                check_at_least(name, least, ZERO)
    later = drawn(seed, spread.jitter if body.jitter is None else body.jitter)
    try:
        if body.at is not None:
            return body.at + later, None
        if body.delay is not None:
            return None, body.delay + later
        later += spread.offset(number)
        return (None, later) if spread.start is None else (spread.start + later, None)
    except OverflowError:
        raise invalid("at", "it would run in a year that no calendar has") from None


class Submitting:
    """Writes the jobs of a caller.

    Args:
        client: Writes the jobs.
        types: The known types.
        caller: The caller, who is shown no job of others.
    """

    def __init__(self, client: Client, types: KnownTypes, caller: Caller) -> None:
        self._client = client
        self._types = types
        self._caller = caller

    async def write(self, jobs: Sequence[Planned]) -> Sequence[TaskInstance | Problem]:
        """Write jobs, those of each type at once.

        Returns:
            For each job, in the order given, its instance: with the id of the job if it
            is new, otherwise the instance that has the key; or a problem.
        """
        of_type: dict[str, list[Job]] = {}
        for each in jobs:
            of_type.setdefault(each.type, []).append(each.job)
        found: dict[UUID, TaskInstance | Problem] = {}
        for type, batch in of_type.items():
            written = await self._enqueue(type, batch)
            found |= {job.id: it for job, it in zip(batch, written, strict=True)}
        return [self._seen(found[each.job.id]) for each in jobs]

    async def _enqueue(
        self, type: str, jobs: Sequence[Job]
    ) -> Sequence[TaskInstance | Problem]:
        try:
            return await self._client.aenqueue_all(type, jobs)
        except TaskDefinitionNotFoundError:
            self._types.forget(type)
            if type not in self._types.tasks:
                return [no_type(type)] * len(jobs)
        # This server runs the type, and has not scheduled its task yet.
        await self._client.aschedule(self._types.tasks[type].definition)
        return await self._client.aenqueue_all(type, jobs)

    def _seen(self, found: TaskInstance | Problem) -> TaskInstance | Problem:
        """The instance, if the caller may see it; otherwise a problem."""
        if isinstance(found, Problem) or self._caller.sees(found.definition):
            return found
        return key_taken()


_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not empty.

    Attributes:
        number: Its number; empty lines count.
        data: Its content without the line end; None: it is too long.
    """

    number: int
    data: bytes | None


class Lines:
    """Splits parts of a body into lines, which end with LF or CRLF.

    Args:
        longest: The most bytes of a line.
        first: The number of the first line.

    Attributes:
        number: The number of the last line that has ended.
    """

    def __init__(self, longest: int, *, first: int = 1) -> None:
        self._longest = longest
        self._held = bytearray()
        self._is_too_long = False
        self.number = first - 1

    def take(self, part: bytes) -> Iterator[Line]:
        """The lines that end in a part."""
        begin = 0
        while (end := part.find(b"\n", begin)) >= 0:
            self._hold(part[begin:end])
            begin = end + 1
            yield from self._end()
        self._hold(part[begin:])

    def rest(self) -> Iterator[Line]:
        """The last line, if no line end follows it."""
        if self._held or self._is_too_long:
            yield from self._end()

    def _hold(self, part: bytes) -> None:
        if not self._is_too_long:
            self._held += part
            # One more, as the last byte may be the CR of the line end.
            self._is_too_long = len(self._held) > self._longest + 1

    def _end(self) -> Iterator[Line]:
        self.number += 1
        data, is_too_long = bytes(self._held), self._is_too_long
        self._held.clear()
        self._is_too_long = False
        if self.number == 1:
            data = data.removeprefix(_MARK)
        data = data.strip(b" \t\r")
        if is_too_long or len(data) > self._longest:
            yield Line(self.number, None)
        elif data:
            yield Line(self.number, data)


def read(line: Line, *, longest: int) -> JobBody | Problem:
    """The job of a line, or the problem with it.

    Args:
        line: The line.
        longest: The most bytes of a line, for the message.
    """
    if line.data is None:
        return _unreadable(
            f"a line has at most {longest} bytes: store large payloads"
            " elsewhere and import references to them"
        )
    try:
        text = line.data.decode()
    except UnicodeDecodeError as error:
        return _unreadable(
            f"it is not UTF-8 from its byte {error.start + 1} on: save"
            " the file as UTF-8"
        )
    try:
        value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        return _unreadable(
            f"it is no JSON: {error.msg} at column {error.colno}; each"
            " line is a whole object"
        )
    except (ValueError, RecursionError):
        return _unreadable(
            "it is JSON that nobody keeps: nested too deep, NaN, or a"
            " number of too many digits"
        )
    try:
        body = JobBody.model_validate(value)
        check_type_name(body.type)
    except ValidationError as error:
        return mismatch(error)
    except Problem as problem:
        return problem
    return body


def _refuse(_: str) -> Never:
    raise ValueError


def _unreadable(detail: str) -> Problem:
    errors: tuple[FieldError] = ({"field": "", "detail": detail},)
    return Problem(400, "malformed", "The line cannot be read", detail, errors=errors)


_BATCH = 500
_OFTEN = timedelta(seconds=1)
_PART_OF_TIME = 500
_MOST_TOLD = 1000
_COUNTED = ("read", "made", "known", "dropped", "refused")

Event = dict[str, Any]
"""An event of an import; the answer has one in each line."""


class Import:
    """One import, and its counts so far.

    Args:
        here: The context.
        caller: The caller.
        asked: The parameters of the import.
    """

    def __init__(self, here: Context, caller: Caller, asked: ImportQuery) -> None:
        self.name = asked.import_ or uuid4().hex
        self._here = here
        self._caller = caller
        self._skips = asked.on_error == "skip"
        self._spread = spread_of(here, asked)
        self._submitting = Submitting(here.client, here.job_types, caller)
        self._lines = Lines(here.limits.body_bytes, first=asked.first)
        self._most = asked.first - 1 + here.limits.import_lines
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._began = self._told = here.clock.elapsed()

    async def events(self, parts: AsyncIterator[bytes]) -> AsyncGenerator[Event]:
        """Import the lines of a body, and yield events.

        The last event is *done*, *stopped* or *failed*. A sender may still be sending
        after it: the rest of the body is read for a while, and dropped.

        Args:
            parts: The parts of the body.
        """
        start = self._spread.start
        yield {
            "event": "started",
            "import": self.name,
            "start": None if start is None else write_instant(start),
        }
        try:
            async for batch in self._batches(parts):
                events, goes_on = await self._write(batch)
                for each in events:
                    yield each
                if not goes_on:
                    yield self._end("stopped", "lines after the one refused are left")
                    break
                if self._is_to_tell():
                    yield {"event": "progress", **self._counts}
            else:
                yield self._last()
                return
        except ClientDisconnect:
            return
        except TimeoutError:
            yield self._end("failed", "the lines took too long to arrive")
            return
        except (GoSchedulerError, Problem) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
            yield self._end("failed", problem.detail)
        await self._leave(parts)

    def _last(self) -> Event:
        if self._lines.number <= self._most:
            return {"event": "done", "import": self.name, **self._counts}
        most = self._here.limits.import_lines
        return self._end(
            "stopped",
            f"an import has at most {most} lines: send the rest"
            " as another one, of another name",
        )

    def _end(self, event: str, why: str) -> Event:
        again = f"what was made stays: send it again by import={self.name}"
        detail = f"{why}; {again}, and no line is made twice"
        return {"event": event, "import": self.name, **self._counts, "detail": detail}

    def _is_to_tell(self) -> bool:
        """Whether it is time for a progress event; they become less frequent.

        Many senders read nothing until they have sent everything. Until then the
        network has to buffer the events.
        """
        now = self._here.clock.elapsed()
        if now - self._told < max(_OFTEN, (now - self._began) / _PART_OF_TIME):
            return False
        self._told = now
        return True

    async def _batches(self, parts: AsyncIterator[bytes]) -> AsyncIterator[list[Line]]:
        batch: list[Line] = []
        size = 0
        async for line in self._read(parts):
            batch.append(line)
            size += len(line.data or b"")
            if len(batch) == _BATCH or size >= self._here.limits.body_bytes:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    async def _read(self, parts: AsyncIterator[bytes]) -> AsyncIterator[Line]:
        lines, most = self._lines, self._most
        seconds = self._here.limits.read.total_seconds()
        while True:
            try:
                async with asyncio.timeout(seconds):
                    part = await anext(parts)
            except StopAsyncIteration:
                break
            for line in lines.take(part):
                if line.number <= most:
                    yield line
            if lines.number > most:
                return
        for line in lines.rest():
            if line.number <= most:
                yield line

    async def _leave(self, parts: AsyncIterator[bytes]) -> None:
        """Read the rest of the body for a while, so that the answer arrives."""
        with suppress(ClientDisconnect, TimeoutError):
            async with asyncio.timeout(self._here.limits.read.total_seconds()):
                async for _ in parts:
                    pass

    async def _write(self, batch: Sequence[Line]) -> tuple[Sequence[Event], bool]:
        """Write a batch; returns its events, and whether the import goes on."""
        longest = self._here.limits.body_bytes
        bodies = await on_thread(lambda: [read(it, longest=longest) for it in batch])
        names = {each.type for each in bodies if isinstance(each, JobBody)}
        types = await self._here.job_types.find_all(names)
        parsed = zip(batch, bodies, strict=True)
        plans = await on_thread(lambda: [self._plan(*it, types) for it in parsed])
        taken = self._taken(plans)
        jobs = [each for each in taken if isinstance(each, Planned)]
        found = iter(await self._submitting.write(jobs))
        results = [next(found) if isinstance(each, Planned) else each for each in taken]
        events: list[Event] = []
        goes_on = True
        for line, plan, result in zip(batch, taken, results, strict=False):
            self._counts["read"] += 1
            if isinstance(result, Problem):
                self._counts["refused"] += 1
                goes_on = self._skips
                if self._counts["refused"] <= _MOST_TOLD:
                    events.append(_refused(line, result))
                continue
            assert isinstance(plan, Planned)
            self._counts[_became(plan, result)] += 1
        return events, goes_on

    def _taken(self, plans: Sequence[Planned | Problem]) -> Sequence[Planned | Problem]:
        """The plans up to the first refused one, or all."""
        if self._skips:
            return plans
        refused = (n for n, each in enumerate(plans) if isinstance(each, Problem))
        return plans[: next(refused, len(plans)) + 1]

    def _plan(
        self, line: Line, body: JobBody | Problem, types: Mapping[str, KnownType]
    ) -> Planned | Problem:
        if isinstance(body, Problem):
            return body
        own_key = f"import {self.name}:{line.number}"
        try:
            if body.type not in types:
                return no_type(body.type)
            return planned(
                body,
                types[body.type],
                self._caller,
                key=own_key if body.key is None else body.key,
                number=line.number,
                spread=self._spread,
            )
        except Problem as problem:
            return problem


def spread_of(here: Context, asked: ImportQuery) -> Spread:
    """When the lines of an import are to run."""
    window, interval = asked.seconds("window"), asked.seconds("interval")
    if window is None and interval is None:
        interval = here.jobs.interval
    start = asked.start
    if start is not None:
        with of_field("start"):
            start = utc(start, name="start")
    elif (window or interval or ZERO) > ZERO:
        # The same start for all lines, however long they take to arrive.
        start = here.clock.now()
    jitter = asked.seconds("jitter")
    return Spread(
        start=start,
        window=window,
        interval=interval,
        jitter=here.jobs.jitter if jitter is None else jitter,
    )


def _became(plan: Planned, found: TaskInstance) -> str:
    if found.id != plan.job.id:
        return "known"
    return "dropped" if found.state is State.SKIPPED else "made"


def _refused(line: Line, problem: Problem) -> Event:
    return {
        "event": "refused",
        "line": line.number,
        "type": f"urn:go_scheduler:{problem.slug}",
        "detail": problem.detail,
        "errors": list(problem.errors),
    }
