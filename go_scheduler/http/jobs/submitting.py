"""Writes jobs: many of one type at once, and those with a definition of their own."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

from go_scheduler.checks import check_at_least, check_name
from go_scheduler.client.arguments import MOST_LISTED, Job
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.http.bodies.body import of_field
from go_scheduler.http.bodies.jobs import SETTINGS
from go_scheduler.http.jobs.jitter import Spread, drawn
from go_scheduler.http.jobs.known_types import no_type
from go_scheduler.http.problems import Problem, invalid, problem_of
from go_scheduler.models import TaskDefinition
from go_scheduler.stores.messages import Addition
from go_scheduler.triggers import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from go_scheduler.client import Client
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.bodies.jobs import JobBody
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
