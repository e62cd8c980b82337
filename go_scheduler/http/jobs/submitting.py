"""Writes jobs: many of one type at once, and those with a definition of their own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from go_scheduler.client.arguments import MOST_LISTED
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.http.jobs.known_types import no_type
from go_scheduler.http.problems import Problem, problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from go_scheduler.client import Client
    from go_scheduler.client.job import Job
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.jobs.known_types import KnownTypes
    from go_scheduler.http.jobs.planning import Planned
    from go_scheduler.models import TaskDefinition, TaskInstance


class Submitting:
    """Writes the jobs of a caller.

    Args:
        client: What writes them.
        types: What is known of types.
        caller: Who submits them, and is told of nobody else's.
    """

    def __init__(self, client: Client, types: KnownTypes, caller: Caller) -> None:
        self._client = client
        self._types = types
        self._caller = caller

    async def write(self, jobs: Sequence[Planned]) -> Sequence[TaskInstance | Problem]:
        """Write jobs, those without definitions of their own by one write a type.

        Of several with one key, whether they have their own definitions or not, the
        first is written, and those with their own before the others.

        Returns:
            In the order given, the instance: with the id of its job if it was made, and
            else the one that has the key; or why there is none for this caller.
        """
        # Else one with settings of its own and one without might not see each other.
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
        # It is run here, and nobody has scheduled it yet.
        await self._client.aschedule(self._types.tasks[type].definition)
        return await self._client.aenqueue_all(type, jobs)

    async def _with_their_own(
        self, jobs: Sequence[Planned]
    ) -> Mapping[UUID, TaskInstance | Problem]:
        """Those whose key has a job that has a definition of its own."""
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
                # It may be gone by now.
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
                # Another server was at it at the same moment.
                await self._client.adelete_definition(own.id)
                return known
            return await self._run(own.id, each.job)
        except Problem as problem:
            return problem
        except ConfigurationError as error:
            return problem_of(error)
        except TaskDefinitionNotFoundError:
            # One with this key has ended, and is remembered as one of its owner's.
            await self._client.adelete_definition(own.id)
        await self._put(own, each.owner)
        return await self._run(own.id, each.job)

    async def _without_own(self, each: Planned) -> TaskInstance | None:
        """The one that has the key of a job, without settings of its own."""
        for id in each.elsewhere:
            for known in await self._client.alist_instances(
                definition_id=id, key=each.job.key, limit=1
            ):
                return known
        return None

    async def _put(self, own: TaskDefinition, owner: str | None) -> bool:
        """Put a definition unless it is there; whether it was not."""
        try:
            if owner is None:
                await self._client.aschedule(own)
                return True
            put = await self._client.adeclare([own], owner=owner, removed="keep")
        except ConflictError:
            # There is one with this key, of which nothing is changed. Its run may not
            # be made yet: by somebody who may not see it, it never is.
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
        """What was found, if it is not somebody else's."""
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
