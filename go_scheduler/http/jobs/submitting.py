"""Writes jobs: one, many at once, or each line of an import."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Never, cast
from uuid import UUID, uuid4

from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from go_scheduler.checks import check_at_least, check_name
from go_scheduler.client.arguments import MOST_LISTED, Job
from go_scheduler.client.store_access import on_thread
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    GoSchedulerError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.http.bodies.body import of_field
from go_scheduler.http.bodies.jobs import SETTINGS, JobBody
from go_scheduler.http.jobs.jitter import Spread, drawn
from go_scheduler.http.jobs.known_types import check_type_name, no_type
from go_scheduler.http.problems import (
    FieldError,
    Problem,
    invalid,
    mismatch,
    problem_of,
)
from go_scheduler.json import write_instant
from go_scheduler.models import State, TaskDefinition
from go_scheduler.stores.messages import Addition
from go_scheduler.triggers import OnDemandTrigger
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
        job: Its time, payload and key.
        own: Its own definition; None: the definition of its type.
        owner: The owner of its own definition; None: no owner.
        elsewhere: Other definitions that may have an instance with its key: with
            settings of its own, or without.
    """

    type: str
    job: Job
    own: TaskDefinition | None = None
    owner: str | None = None
    elsewhere: Sequence[UUID] = ()


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
    base = of.base(caller)
    if body.owner is not None:
        with of_field("owner"):
            check_name("owner", body.owner)
    stored = of.checked(body.payload)
    settings = body.settings(base)
    new = uuid4()
    at, delay = _when(body, spread, number, key or str(new))
    # Everybody may use the types of the server, by a definition of their own.
    is_own = bool(settings) or not caller.sees(base)
    # The client converts payloads of tasks of its own.
    payload = body.payload if of.task is not None and not is_own else stored or None
    job = Job(id=new, payload=payload, at=at, delay=delay, key=key)
    _check(job)
    if not is_own:
        elsewhere = _own_ids(body, caller, key)
        return Planned(type=body.type, job=job, elsewhere=elsewhere)
    owner = caller.owner_for(body.owner)
    id = _own_id(owner, body.type, key)
    # Unnamed, so that the store keeps no tombstone, unless it is in a declared set.
    own = _own(base, settings, id=id, named=owner is not None)
    caller.check_queue(own.queue)
    elsewhere = (base.id,) if key is not None and caller.sees(base) else ()
    return Planned(type=body.type, job=job, own=own, owner=owner, elsewhere=elsewhere)


def _check(job: Job) -> None:
    """Refuse a wrong job before any job of its batch is written."""
    with of_field("", ("at", "delay", "key", "payload")):
        Addition(
            at=job.at,
            delay=job.delay or ZERO,
            payload=cast("Mapping[str, JSON] | None", job.payload),
            key=job.key,
        )


def _own_id(owner: str | None, type: str, key: str | None) -> UUID:
    if key is None:
        return uuid4()
    return TaskDefinition.id_for(f"job {json.dumps([owner, type, key])}")


def _own_ids(body: JobBody, caller: Caller, key: str | None) -> Sequence[UUID]:
    """The ids of own definitions that a job of this caller with the key may have."""
    if key is None:
        return ()
    if body.owner is not None or caller.owners is None:
        return (_own_id(body.owner, body.type, key),)
    return [_own_id(each, body.type, key) for each in sorted(caller.owners)]


def _own(
    base: TaskDefinition, settings: dict[str, Any], *, id: UUID, named: bool
) -> TaskDefinition:
    with of_field("", SETTINGS):
        own = replace(
            base,
            id=id,
            key=None,
            trigger=OnDemandTrigger(lasting=False),
            **({"metadata": {}} | settings),
        )
        # Revision 0: a definition that exists stays as it is.
        return replace(own, named=named, revision=0)


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
        """Write jobs; jobs without own definitions are one write for each type.

        Of several jobs with one key, one is written. Jobs with own definitions come
        before the others.

        Returns:
            For each job, in the order given, its instance: with the id of the job if it
            is new, otherwise the instance that has the key; or a problem.
        """
        # Without locks, a job with own settings and one without might both be written.
        keys = {(each.type, each.job.key) for each in jobs if each.job.key is not None}
        async with self._types.keys.held(keys):
            found = await self._write(jobs)
        return [self._seen(found[each.job.id]) for each in jobs]

    async def _write(
        self, jobs: Sequence[Planned]
    ) -> Mapping[UUID, TaskInstance | Problem]:
        found: dict[UUID, TaskInstance | Problem] = {}
        for each in jobs:
            if each.own is not None:
                found[each.job.id] = await self._write_own(each, each.own)
        found |= await self._with_their_own([each for each in jobs if each.own is None])
        plain: dict[str, list[Job]] = {}
        for each in jobs:
            if each.job.id not in found:
                plain.setdefault(each.type, []).append(each.job)
        for type, batch in plain.items():
            written = await self._enqueue(type, batch)
            found |= {job.id: it for job, it in zip(batch, written, strict=True)}
        return found

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

    async def _with_their_own(
        self, jobs: Sequence[Planned]
    ) -> Mapping[UUID, TaskInstance | Problem]:
        """The jobs whose key belongs to a job with its own definition."""
        ids = list(dict.fromkeys(id for each in jobs for id in each.elsewhere))
        there: dict[UUID, TaskDefinition] = {}
        for start in range(0, len(ids), MOST_LISTED):
            page = await self._client.alist_definitions(
                ids=ids[start : start + MOST_LISTED], limit=MOST_LISTED
            )
            there |= {own.id: own for own in page}
        found: dict[UUID, TaskInstance | Problem] = {}
        for each in jobs if there else ():
            for own in (there[id] for id in each.elsewhere if id in there):
                if not self._caller.sees(own):
                    found[each.job.id] = _taken()
                    continue
                # It may be deleted meanwhile.
                with suppress(TaskDefinitionNotFoundError):
                    found[each.job.id] = await self._run(own.id, each.job)
        return found

    async def _write_own(
        self, each: Planned, own: TaskDefinition
    ) -> TaskInstance | Problem:
        if (known := await self._without_own(each)) is not None:
            return known
        try:
            is_new = await self._put(own, each.owner)
            if is_new and (known := await self._without_own(each)) is not None:
                # Another server wrote a job with the key at the same moment.
                await self._client.adelete_definition(own.id)
                return known
            return await self._run(own.id, each.job)
        except Problem as problem:
            return problem
        except ConfigurationError as error:
            return problem_of(error)
        except TaskDefinitionNotFoundError:
            # A job with this key has ended; a tombstone of its definition remains.
            await self._client.adelete_definition(own.id)
        await self._put(own, each.owner)
        return await self._run(own.id, each.job)

    async def _without_own(self, each: Planned) -> TaskInstance | None:
        """The instance without own settings that has the key of a job."""
        for id in each.elsewhere:
            for known in await self._client.alist_instances(
                definition_id=id, key=each.job.key, limit=1
            ):
                return known
        return None

    async def _put(self, own: TaskDefinition, owner: str | None) -> bool:
        """Put a definition unless it exists; returns whether it is new."""
        try:
            if owner is None:
                await self._client.aschedule(own)
                return True
            put = await self._client.adeclare([own], owner=owner, removed="keep")
        except ConflictError:
            # The definition exists, and stays as it is. Its instance may not exist yet;
            # a caller who may not see the definition must not create it.
            if not self._caller.sees(await self._client.aget_definition(own.id)):
                raise _taken() from None
            return False
        if not put:
            raise Problem(
                409,
                "owner",
                "Not possible for its owner",
                f"the set of {owner!r} is declared with versions, by a program, and"
                " takes no job with settings of its own: leave out what its type says",
            )
        return True

    async def _run(self, id: UUID, job: Job) -> TaskInstance:
        return await self._client.arun_now(
            id, payload=job.payload, at=job.at, delay=job.delay, key=job.key, id=job.id
        )

    def _seen(self, found: TaskInstance | Problem) -> TaskInstance | Problem:
        """The instance, if the caller may see it; otherwise a problem."""
        if isinstance(found, Problem) or self._caller.sees(found.definition):
            return found
        return _taken()


def _taken() -> Problem:
    return Problem(
        409,
        "key",
        "Its key is taken",
        "something else has this key, or its type has changed: take another key, or"
        " ask again in a moment",
    )


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
