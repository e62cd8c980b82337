"""A cache of job types."""

from __future__ import annotations

import shlex
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from go_scheduler.checks import check_name
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.job_types import MARK, JobType, JobTypes
from go_scheduler.handlers.registry import task_id
from go_scheduler.handlers.schema import Schema
from go_scheduler.http.problems import Problem, invalid, not_allowed
from go_scheduler.json import NOTHING, freeze
from go_scheduler.models import PAYLOAD_LIMIT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock
    from go_scheduler.handlers.registry import HandlerRegistry, Task
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition


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

    def described(self, known: KnownType) -> JobType:
        """The description of a type that the server runs itself."""
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


def check_type_name(name: str) -> None:
    """Refuse an invalid name of a type.

    Raises:
        Problem: 422.
    """
    try:
        check_name("type", name)
    except ConfigurationError as error:
        raise invalid("type", str(error)) from None


def is_declared(definition: TaskDefinition) -> bool:
    """Whether a definition is a type that was declared over HTTP."""
    return MARK in definition.metadata


def is_type(definition: TaskDefinition) -> bool:
    """Whether a definition has the id of a type, and is no copy of its metadata."""
    return definition.name is not None and definition.id == task_id(definition.name)


def said_of(definition: TaskDefinition) -> Mapping[str, JSON]:
    """The description and schema of a declared type."""
    said = definition.metadata.get(MARK)
    return said if isinstance(said, dict) else NOTHING


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
