"""Jobs and their types: bodies, what is known of types, how jobs are written."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Never, Self
from urllib.parse import quote
from uuid import UUID, uuid4

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic.config import JsonDict
from starlette.requests import ClientDisconnect

from go_scheduler.checks import check_at_least, check_name
from go_scheduler.client.on_demand import Job
from go_scheduler.client.store_access import on_thread
from go_scheduler.clock import ZERO, Clock
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.handlers.job_types import MARK, JobType, JobTypes
from go_scheduler.handlers.registry import HandlerRegistry, Task, task_id
from go_scheduler.handlers.schema import Schema
from go_scheduler.http.bodies import (
    Answer,
    Body,
    Instant,
    JitterSpan,
    Name,
    Object,
    PageOf,
    Query,
    RetryBody,
    RunSettings,
    Seconds,
    SecondsCount,
    Settings,
    filled,
    if_given,
    of_field,
)
from go_scheduler.http.problems import (
    FieldError,
    Problem,
    invalid,
    key_taken,
    mismatch,
    not_allowed,
    problem_of,
)
from go_scheduler.http.staggering import Spread, drawn
from go_scheduler.json import JSON, NOTHING, check_text, freeze, write_instant
from go_scheduler.models import (
    METADATA_LIMIT,
    OVERRIDABLE,
    PAYLOAD_LIMIT,
    State,
    TaskDefinition,
)
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition
from go_scheduler.triggers.base import utc
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from go_scheduler.client import Client
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.context import Context
    from go_scheduler.models import TaskInstance


_JOB: JsonDict = {"type": "resize", "payload": {"picture": "cat.png"}, "key": "cat"}
_TYPE: JsonDict = {
    "queue": "pictures",
    "retry": {"max_attempts": 5, "delay": 10},
    "schema": {"properties": {"picture": {"type": "string"}}, "required": ["picture"]},
}
_LONGEST_IMPORT = 180
_MOST_LINES = 10**12


def check_type_name(name: str) -> None:
    """Refuse an invalid name of a type.

    Raises:
        Problem: 422.
    """
    try:
        check_name("type", name)
    except ConfigurationError as error:
        raise invalid("type", str(error)) from None


def said_of(definition: TaskDefinition) -> Mapping[str, JSON]:
    """The description and schema of a declared type."""
    said = definition.metadata.get(MARK)
    return said if isinstance(said, dict) else NOTHING


class _Job(Body):
    """What a job has beside the settings of its run; these fields are shown first."""

    type: Name
    payload: Object | None = Field(None, description="At most 64 KiB.")
    at: Instant | None = Field(None, description="null: as soon as possible.")
    delay: Seconds | None = Field(None, description="Instead of `at`.")
    key: Name | None = Field(
        None, description="While a job of the type has this key, no second job is made."
    )
    jitter: JitterSpan = None
    queue: Name | None = None
    priority: int | None = Field(None, json_schema_extra={"minimum": 0, "maximum": 3})
    retry: RetryBody | None = None
    metadata: Object | None = Field(None, description="At most 64 KiB.")


class JobBody(RunSettings, _Job):
    """A job: its type, its payload, and its time.

    Settings that are left out are those of the type, as they are when it runs.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_JOB]})

    def settings(self) -> dict[str, Any]:
        """The settings that it has of its own.

        Raises:
            Problem: 422, a policy is wrong.
        """
        said = {name: getattr(self, name) for name in OVERRIDABLE}
        said["retry"] = if_given(self.retry, lambda it: it.policy("retry"))
        return {name: value for name, value in said.items() if value is not None}


class SubmittedAnswer(Answer):
    """The instance of a job."""

    instance_id: UUID
    definition_id: UUID
    state: State = Field(description="skipped: the job was dropped.")


class ImportQuery(Query):
    """The parameters of an import."""

    import_: str | None = Field(
        None,
        alias="import",
        min_length=1,
        max_length=_LONGEST_IMPORT,
        description="A name for the import. An import that is repeated with the same"
        " name makes no line twice. null: the server makes up a name, and answers it.",
    )
    first: int = Field(
        1,
        ge=1,
        le=_MOST_LINES,
        description="The number of the first line, if an import comes in parts.",
    )
    start: Instant | None = Field(None, description="null: the present time.")
    window: SecondsCount | None = Field(
        None, description="Over how many seconds the jobs are staggered evenly."
    )
    interval: SecondsCount | None = Field(
        None, description="The seconds between a job and the next one."
    )
    jitter: SecondsCount | None = Field(
        None, description="The longest random delay of each job, in seconds."
    )
    on_error: Literal["stop", "skip"] = Field(
        "stop",
        description="Whether the lines after a refused line are left out, or go on.",
    )

    @model_validator(mode="before")
    @classmethod
    def _take_by_name(cls, value: object) -> object:
        """Accept the field's name, which older versions of FastAPI use."""
        return (
            {"import" if name == "import_" else name: value[name] for name in value}
            if isinstance(value, dict)
            else value
        )

    def seconds(self, name: str) -> timedelta | None:
        """One of its durations."""
        return if_given(getattr(self, name), lambda it: timedelta(seconds=it))

    def check(self) -> None:
        """Refuse parameters that contradict each other.

        Raises:
            Problem: 422.
        """
        if self.import_ is not None:
            with of_field("import"):
                check_text(self.import_, "import")
        if self.window is not None and self.interval is not None:
            raise invalid("interval", "say window or interval, not both")


class TypeBody(Settings):
    """A type of jobs for workers."""

    model_config = ConfigDict(json_schema_extra={"examples": [_TYPE]})

    description: str = Field("", max_length=10_000)
    payload_schema: Object | None = Field(
        None,
        alias="schema",
        description="A JSON schema (2020-12) for the payload, checked when a job is"
        " submitted; null: any object.",
    )

    def definition(self, name: str) -> TaskDefinition:
        """The definition of the type.

        Raises:
            Problem: 422.
        """
        said: dict[str, Any] = {"description": self.description}
        check_type_name(name)
        with of_field("schema"):
            if self.payload_schema is not None:
                schema = Schema(self.payload_schema, patterns=False)
                said["schema"] = schema.value
            metadata = freeze({MARK: said}, name="schema", limit=METADATA_LIMIT)
        settings = self.settings()
        with of_field("", tuple(type(self).model_fields)):
            return TaskDefinition(
                id=task_id(name),
                name=name,
                trigger=OnDemandTrigger(),
                metadata=metadata,
                **settings,
            )


class TypeAnswer(Answer):
    """A type of jobs."""

    type: str
    description: str
    payload_schema: Object | None = Field(alias="schema")
    runs_here: bool = Field(
        description="Whether the server itself, or a worker on its bus, runs it."
    )
    over_bus: bool = Field(False, description="Whether workers on its bus run it.")
    definition_id: UUID
    queue: str
    priority: int
    retry: RetryBody | None
    timeout: Seconds | None
    start_timeout: Seconds | None
    heartbeat_timeout: Seconds | None
    expire_after: Seconds | None
    overlap: Overlap
    lock: str | None
    max_queue: int | None
    when_full: Literal["refuse", "drop"]
    paused: bool
    owner: str | None
    revision: int | None

    @classmethod
    def of(cls, definition: TaskDefinition, job_type: JobType | None = None) -> Self:
        """The answer for a definition, and for the server's own type if it is one."""
        said = said_of(definition)
        schema, described = said.get("schema"), said.get("description")
        if job_type is not None:
            schema, described = job_type.schema, job_type.description
        return filled(
            cls,
            definition,
            type=definition.name or "",
            description=described if isinstance(described, str) else "",
            payload_schema=dict(schema) if isinstance(schema, Mapping) else None,
            runs_here=job_type is not None,
            over_bus=job_type is not None and job_type.over_bus,
            definition_id=definition.id,
            retry=if_given(definition.retry, RetryBody.of),
        )


class TypesAnswer(PageOf[TypeAnswer]):
    """A page of types."""


_MOST_KNOWN = 1000
_AGE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownType:
    """A type of jobs.

    Attributes:
        name: Its name.
        task: The task of this server, if it runs the type.
        stored: Its definition in the store, if there is one.
        schema: The schema of its payloads, if it was declared with one.
    """

    name: str
    task: Task[..., ..., object] | None
    stored: TaskDefinition | None
    schema: Schema | None

    def is_seen(self, caller: Caller) -> bool:
        """Whether a caller may see it."""
        if self.task is not None:
            return True
        return self.stored is not None and caller.sees(self.stored)

    def base(self, caller: Caller) -> TaskDefinition:
        """The definition of its jobs.

        Raises:
            Problem: 404, there is none that the caller may see; 403, its jobs are
                nobody's whom the caller may see.
        """
        if not self.is_seen(caller):
            raise no_type(self.name)
        base = self.stored
        if base is None:
            assert self.task is not None
            base = self.task.definition
        if caller.owners is not None and base.owner not in caller.owners:
            raise not_allowed(
                "owner",
                f"a job belongs to the owner of its type, and the type {self.name!r} is"
                " none of the caller's",
            )
        return base

    def checked(self, payload: Mapping[str, object] | None) -> Mapping[str, JSON]:
        """Check a payload, and return it as it is stored.

        Raises:
            Problem: 422, with the path of the wrong value.
        """
        given = NOTHING if payload is None else payload
        try:
            frozen = freeze(given, name="payload", limit=PAYLOAD_LIMIT)
            if self.task is not None:
                written = self.task.payload.write(frozen)
                return freeze(written, name="payload", limit=PAYLOAD_LIMIT)
            if self.schema is not None:
                self.schema.check(frozen)
        except ConfigurationError as error:
            path, _, what = str(error).partition(": ")
            if path.startswith("payload") and " " not in path:
                raise invalid(path, what) from None
            raise invalid("payload", str(error)) from None
        return frozen

    def plan(
        self,
        body: JobBody,
        caller: Caller,
        *,
        key: str | None,
        spread: Spread,
        number: int = 1,
    ) -> Job:
        """Check a job of this type, and plan how it is written.

        Args:
            body: The body of the request.
            caller: The caller.
            key: Its key; None: it has none.
            spread: Its time if it names none.
            number: Its number in an import.

        Raises:
            Problem: The job is wrong, or the caller may not submit it.
        """
        base, settings = self.base(caller), body.settings()
        caller.check_queue(settings.get("queue", base.queue))
        payload = self.checked(body.payload) or None
        id = uuid4()
        at, delay = _when(body, spread, number, key or str(id))
        # A wrong job is refused before any of its batch is written.
        with of_field("", ("at", "delay", "key", "payload", *OVERRIDABLE)):
            Addition(
                at=at,
                delay=delay or ZERO,
                payload=payload,
                key=key,
                overrides=settings or None,
            )
        return Job(
            id=id,
            # The client converts payloads of tasks of its own.
            payload=payload if self.task is None else body.payload,
            at=at,
            delay=delay,
            key=key,
            overrides=settings or None,
        )


class KnownTypes:
    """A cache of job types by name.

    A thousand jobs read a definition once. A change by another process is noticed
    within ten seconds, and a new type at once.

    Args:
        client: Reads definitions.
        types: The types that the server runs itself.
        clock: Measures the age of an entry.

    Attributes:
        tasks: The tasks of this server, by name.
    """

    def __init__(
        self, client: Client, types: HandlerRegistry | None, clock: Clock
    ) -> None:
        self._client = client
        self._types = types
        self.tasks: Mapping[str, Task[..., ..., object]] = (
            {} if types is None else types.tasks
        )
        self._clock = clock
        self._kept: OrderedDict[str, tuple[timedelta, KnownType]] = OrderedDict()

    async def find(self, name: str) -> KnownType:
        """Find a type.

        Raises:
            Problem: 404, there is none; 422, the name is invalid.
        """
        check_type_name(name)
        found = await self.find_all([name])
        if name not in found:
            raise no_type(name)
        return found[name]

    async def find_all(self, names: Collection[str]) -> Mapping[str, KnownType]:
        """Find types by one read; unknown types are missing from the result."""
        since = self._clock.elapsed() - _AGE
        found = {
            name: self._kept[name][1]
            for name in names
            if name in self._kept and self._kept[name][0] > since
        }
        missing = {task_id(name): name for name in names if name not in found}
        if missing:
            stored = await self._client.alist_definitions(
                ids=list(missing), limit=len(missing)
            )
            # A definition with the id of a type and another name is no type.
            by_name = {
                name: each for each in stored if (name := missing[each.id]) == each.name
            }
            for name in missing.values():
                if name in by_name or name in self.tasks:
                    found[name] = self._keep(name, by_name.get(name))
        return found

    async def payload_for(
        self,
        definition: TaskDefinition,
        caller: Caller,
        payload: Mapping[str, object] | None,
    ) -> Mapping[str, object] | None:
        """Check the payload of a manual run, and return it as it is stored.

        Raises:
            Problem: 422, it does not fit the type with the definition's name.
        """
        name = definition.name
        known = None if name is None else (await self.find_all([name])).get(name)
        if known is None or not known.is_seen(caller):
            return payload
        stored = known.checked(payload)
        # The scheduler converts payloads of its own tasks itself.
        if known.task is None or is_type(definition):
            return payload
        return stored or None

    def answer(self, known: KnownType) -> TypeAnswer:
        """The answer for a type that the server runs itself."""
        assert known.task is not None
        if isinstance(self._types, JobTypes):
            described = self._types.described(known.name)
        else:
            described = JobType(
                name=known.name,
                description="",
                schema=known.task.payload.schema(),
                definition=known.task.definition,
            )
        return TypeAnswer.of(known.stored or known.task.definition, described)

    def forget(self, name: str) -> None:
        """Remove a type from the cache."""
        self._kept.pop(name, None)

    def _keep(self, name: str, stored: TaskDefinition | None) -> KnownType:
        task = self.tasks.get(name)
        schema = None if stored is None or task is not None else _schema_of(stored)
        known = KnownType(name=name, task=task, stored=stored, schema=schema)
        self._kept[name] = self._clock.elapsed(), known
        self._kept.move_to_end(name)
        if len(self._kept) > _MOST_KNOWN:
            self._kept.popitem(last=False)
        return known


def is_type(definition: TaskDefinition) -> bool:
    """Whether a definition has the id of a type, and is no copy of its metadata."""
    return definition.name is not None and definition.id == task_id(definition.name)


def no_type(name: str) -> Problem:
    """404 for an unknown type."""
    return Problem(
        404,
        "no-type",
        "No such type of job",
        f"neither the server nor the store knows the type {name!r}: declare it by"
        f" PUT /v1/types/{quote(name, safe='')}, with a body such as {{}}, or by"
        f" `go_scheduler types put {shlex.quote(name)}`, and have a worker take it",
    )


def _schema_of(stored: TaskDefinition) -> Schema | None:
    schema = said_of(stored).get("schema")
    return Schema(schema, patterns=False) if isinstance(schema, dict) else None


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


async def write(
    here: Context, caller: Caller, jobs: Mapping[str, Sequence[Job]]
) -> Mapping[UUID, TaskInstance | Problem]:
    """Write jobs, those of each type at once.

    Args:
        here: The context.
        caller: The caller, who is shown no job of others.
        jobs: The jobs, by the name of their type.

    Returns:
        For each job, by its id, its instance: with the id of the job if it is new,
        otherwise the instance that has the key; or a problem.
    """
    found: dict[UUID, TaskInstance | Problem] = {}
    for type, batch in jobs.items():
        try:
            written = await _enqueue(here, type, batch)
        except TaskDefinitionNotFoundError:
            found |= {each.id: no_type(type) for each in batch}
            continue
        for job, instance in zip(batch, written, strict=True):
            is_seen = caller.sees(instance.definition)
            found[job.id] = instance if is_seen else key_taken()
    return found


async def _enqueue(
    here: Context, type: str, jobs: Sequence[Job]
) -> Sequence[TaskInstance]:
    try:
        return await here.client.aenqueue_all(type, jobs)
    except TaskDefinitionNotFoundError:
        here.job_types.forget(type)
        if type not in here.job_types.tasks:
            raise
    # This server runs the type, and has not scheduled its task yet.
    await here.client.aschedule(here.job_types.tasks[type].definition)
    return await here.client.aenqueue_all(type, jobs)


_MARK = b"\xef\xbb\xbf"


async def lines_of(parts: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Split the parts of a body into lines, without the LF that ends each.

    Args:
        parts: The parts of the body.
        most: How much of a line without an end is kept.
    """
    held = bytearray()
    async for part in parts:
        *ended, rest = part.split(b"\n")
        for each in ended:
            yield bytes(held + each)
            held.clear()
        held += rest
        del held[most:]
    if held:
        yield bytes(held)


def read(line: bytes, longest: int) -> JobBody | Problem:
    """The job of a line, or the problem with it.

    Args:
        line: The line.
        longest: The most bytes of a line.
    """
    if len(line) > longest:
        return _unreadable(
            f"a line has at most {longest} bytes: store large payloads"
            " elsewhere and import references to them"
        )
    try:
        text = line.decode()
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


Line = tuple[int, bytes]
"""A line that is not empty, behind its number; empty lines count."""

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
        self._number = asked.first - 1
        self._last = self._number + here.limits.import_lines
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
                if self._number <= self._last:
                    yield {"event": "done", "import": self.name, **self._counts}
                    return
                most = self._here.limits.import_lines
                yield self._end(
                    "stopped",
                    f"an import has at most {most} lines: send the rest"
                    " as another one, of another name",
                )
        except ClientDisconnect:
            return
        except TimeoutError:
            yield self._end("failed", "the lines took too long to arrive")
            return
        except (GoSchedulerError, Problem) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
            yield self._end("failed", problem.detail)
        await self._leave(parts)

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
        # One more, as the last byte may be the CR of the line end.
        longest = self._here.limits.body_bytes + 1
        batch: list[Line] = []
        size = 0
        # What is kept of a longer line is too long without the mark, too.
        most = longest + 1 + len(_MARK)
        async for data in lines_of(self._in_time(parts), most):
            self._number += 1
            if self._number > self._last:
                break
            line = data.removeprefix(_MARK) if self._number == 1 else data
            if len(line) <= longest:
                line = line.strip(b" \t\r")
            if line:
                batch.append((self._number, line))
                size += len(line)
            if len(batch) == _BATCH or size >= longest:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    async def _in_time(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        seconds = self._here.limits.read.total_seconds()
        while True:
            async with asyncio.timeout(seconds):
                part = await anext(parts, None)
            if part is None:
                return
            yield part

    async def _leave(self, parts: AsyncIterator[bytes]) -> None:
        """Read the rest of the body for a while, so that the answer arrives."""
        with suppress(ClientDisconnect, TimeoutError):
            async with asyncio.timeout(self._here.limits.read.total_seconds()):
                async for _ in parts:
                    pass

    async def _write(self, batch: Sequence[Line]) -> tuple[Sequence[Event], bool]:
        """Write a batch; returns its events, and whether the import goes on."""
        longest = self._here.limits.body_bytes
        bodies = await on_thread(lambda: [read(it, longest) for _, it in batch])
        names = {each.type for each in bodies if isinstance(each, JobBody)}
        types = await self._here.job_types.find_all(names)
        plans = await on_thread(self._plans, batch, bodies, types)
        jobs: dict[str, list[Job]] = {}
        for body, plan in zip(bodies, plans, strict=False):
            if isinstance(body, JobBody) and isinstance(plan, Job):
                jobs.setdefault(body.type, []).append(plan)
        written = await write(self._here, self._caller, jobs)
        events: list[Event] = []
        goes_on = True
        for (number, _), plan in zip(batch, plans, strict=False):
            result = plan if isinstance(plan, Problem) else written[plan.id]
            self._counts["read"] += 1
            if isinstance(result, Problem):
                self._counts["refused"] += 1
                goes_on = self._skips
                if self._counts["refused"] <= _MOST_TOLD:
                    events.append(_refused(number, result))
            elif isinstance(plan, Job) and result.id != plan.id:
                self._counts["known"] += 1
            else:
                is_dropped = result.state is State.SKIPPED
                self._counts["dropped" if is_dropped else "made"] += 1
        return events, goes_on

    def _plans(
        self,
        batch: Sequence[Line],
        bodies: Sequence[JobBody | Problem],
        types: Mapping[str, KnownType],
    ) -> Sequence[Job | Problem]:
        """The jobs of a batch; up to the first refused one, unless that is skipped."""
        plans: list[Job | Problem] = []
        for (number, _), body in zip(batch, bodies, strict=True):
            try:
                plans.append(self._plan(number, body, types))
            except Problem as problem:
                plans.append(problem)
                if not self._skips:
                    break
        return plans

    def _plan(
        self, number: int, body: JobBody | Problem, types: Mapping[str, KnownType]
    ) -> Job:
        if isinstance(body, Problem):
            raise body
        if body.type not in types:
            raise no_type(body.type)
        return types[body.type].plan(
            body,
            self._caller,
            key=f"import {self.name}:{number}" if body.key is None else body.key,
            number=number,
            spread=self._spread,
        )


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


def _refused(number: int, problem: Problem) -> Event:
    return {
        "event": "refused",
        "line": number,
        "type": f"urn:go_scheduler:{problem.slug}",
        "detail": problem.detail,
        "errors": list(problem.errors),
    }
