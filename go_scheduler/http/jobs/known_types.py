"""What is known of types of jobs, and the keys whose jobs are being written."""

from __future__ import annotations

import asyncio
import shlex
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from go_scheduler.checks import check_name
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.job_types import MARK, JobType, JobTypes
from go_scheduler.handlers.schema import Schema
from go_scheduler.handlers.task import task_id
from go_scheduler.http.problems import Problem, invalid
from go_scheduler.json import NOTHING, freeze
from go_scheduler.models import PAYLOAD_LIMIT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Set

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock
    from go_scheduler.handlers.registry import HandlerRegistry
    from go_scheduler.handlers.task import Task
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition


class Keys:
    """Has requests that write jobs of the same keys follow one another."""

    def __init__(self) -> None:
        self._held: set[tuple[str, str]] = set()
        self._let_go = asyncio.Event()

    @asynccontextmanager
    async def held(self, keys: Set[tuple[str, str]]) -> AsyncIterator[None]:
        """Have these, all at once, as soon as nobody else has any of them.

        Args:
            keys: Each with its type.
        """
        while not self._held.isdisjoint(keys):
            await self._let_go.wait()
        self._held |= keys
        try:
            yield
        finally:
            self._held -= keys
            self._let_go.set()
            self._let_go = asyncio.Event()


_MOST_KNOWN = 1000
_AGE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownType:
    """What is known of a type.

    Attributes:
        name: Its name.
        task: The server's own, if it runs the type.
        stored: Its definition in the store, if there is one.
        schema: What its payloads are checked by, of one that was declared with any.
    """

    name: str
    task: Task[..., ..., object] | None
    stored: TaskDefinition | None
    schema: Schema | None

    def is_seen(self, caller: Caller) -> bool:
        """Whether a caller may know of it."""
        if self.task is not None:
            return True
        return self.stored is not None and caller.sees(self.stored)

    def base(self, caller: Caller) -> TaskDefinition:
        """The definition from which a job takes what it does not say.

        Raises:
            Problem: 404, there is none that the caller may know of.
        """
        if self.stored is not None and caller.sees(self.stored):
            return self.stored
        if self.task is None:
            raise no_type(self.name)
        return self.task.definition

    def checked(self, payload: Mapping[str, object] | None) -> Mapping[str, JSON]:
        """A payload as it is stored.

        Raises:
            Problem: 422, it does not fit, with the path of what is wrong.
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


class KnownTypes:
    """Types by their names; what the store has of them is kept for a while.

    So a thousand jobs read a definition once. What is changed elsewhere is noticed
    within ten seconds, and a type that is new at once.

    Args:
        client: Reads definitions.
        types: Those that the server runs itself.
        clock: Measures how long.

    Attributes:
        keys: Those whose jobs are just being written.
    """

    def __init__(
        self, client: Client, types: HandlerRegistry | None, clock: Clock
    ) -> None:
        self._client = client
        self._types = types
        self._tasks = {} if types is None else types.tasks
        self._clock = clock
        self.keys = Keys()
        self._kept: OrderedDict[str, tuple[timedelta, KnownType]] = OrderedDict()

    @property
    def tasks(self) -> Mapping[str, Task[..., ..., object]]:
        """The server's own, by their names."""
        return self._tasks

    async def find(self, name: str) -> KnownType:
        """What is known of a type.

        Raises:
            Problem: 404, nothing; 422, it is no name.
        """
        check_type_name(name)
        found = await self.find_all([name])
        if name not in found:
            raise no_type(name)
        return found[name]

    async def find_all(self, names: Collection[str]) -> Mapping[str, KnownType]:
        """What is known of these types, by one read; of some, perhaps nothing."""
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
            # What has the id of a type, and another name, is something else.
            by_name = {
                name: each for each in stored if (name := missing[each.id]) == each.name
            }
            for name in missing.values():
                if name in by_name or name in self._tasks:
                    found[name] = self._keep(name, by_name.get(name))
        return found

    async def payload_for(
        self,
        definition: TaskDefinition,
        caller: Caller,
        payload: Mapping[str, object] | None,
    ) -> Mapping[str, object] | None:
        """What a definition is to be run with by hand, as it is stored.

        Raises:
            Problem: 422, it is none that fits the type by whose name it runs.
        """
        name = definition.name
        known = None if name is None else (await self.find_all([name])).get(name)
        if known is None or not known.is_seen(caller):
            return payload
        stored = known.checked(payload)
        # A task of the scheduler's own makes it into what is stored by itself.
        if known.task is None or is_type(definition):
            return payload
        return stored or None

    def described(self, known: KnownType) -> JobType:
        """What the server says of a type that it runs itself."""
        assert known.task is not None
        if isinstance(self._types, JobTypes):
            return self._types.described(known.name)
        return JobType(
            name=known.name,
            description="",
            schema=known.task.payload.schema(),
            definition=known.task.definition,
        )

    def forget(self, name: str) -> None:
        """Read a type anew."""
        self._kept.pop(name, None)

    def _keep(self, name: str, stored: TaskDefinition | None) -> KnownType:
        task = self._tasks.get(name)
        schema = None if stored is None or task is not None else _schema_of(stored)
        known = KnownType(name=name, task=task, stored=stored, schema=schema)
        self._kept[name] = self._clock.elapsed(), known
        self._kept.move_to_end(name)
        if len(self._kept) > _MOST_KNOWN:
            self._kept.popitem(last=False)
        return known


def check_type_name(name: str) -> None:
    """Refuse what no type can be called.

    Raises:
        Problem: 422.
    """
    try:
        check_name("type", name)
    except ConfigurationError as error:
        raise invalid("type", str(error)) from None


def is_declared(definition: TaskDefinition) -> bool:
    """Whether a definition is that of a type which was declared over HTTP."""
    return MARK in definition.metadata


def is_type(definition: TaskDefinition) -> bool:
    """Whether a definition is that of a type, and not a copy of one's metadata."""
    return definition.name is not None and definition.id == task_id(definition.name)


def said_of(definition: TaskDefinition) -> Mapping[str, JSON]:
    """What was said of a declared type: its description and schema."""
    said = definition.metadata.get(MARK)
    return said if isinstance(said, dict) else NOTHING


def no_type(name: str) -> Problem:
    """That of a type which nobody knows."""
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
