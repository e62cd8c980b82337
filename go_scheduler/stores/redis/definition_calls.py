"""The part of a Redis store that is about definitions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import RUNS_KEPT
from go_scheduler.stores.changes import check_each_once
from go_scheduler.stores.hand_over_store import HandOverStore
from go_scheduler.stores.hints import SOON
from go_scheduler.stores.messages import Answer, Fired
from go_scheduler.stores.redis.calls import AHEAD, RedisCalls, parts
from go_scheduler.stores.redis.puts import write_skipped
from go_scheduler.stores.redis.rows import read_tombstone
from go_scheduler.stores.redis.texts import (
    fresh_id,
    maybe_time_text,
    micros,
    present,
    read_id,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set
    from datetime import timedelta

    from go_scheduler.json import JSON
    from go_scheduler.models import DefinitionState, TaskDefinition, TaskInstance
    from go_scheduler.stores.declared import Declaration, Declared
    from go_scheduler.stores.messages import Claimant, Firing, Position, Tombstone
    from go_scheduler.stores.redis.puts import Puts


class RedisDefinitions(RedisCalls, HandOverStore):
    """What a ``RedisStore`` does with definitions."""

    _puts: Puts

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id."""
        check_each_once(definitions)
        return self._puts.put(definitions) if definitions else []

    def put_and_start(
        self, firing: Firing, claimant: Claimant
    ) -> tuple[TaskDefinition, TaskInstance | None]:
        """Put one definition, and start it if it is new."""
        written = write_firing(firing)
        return self._puts.put_and_start(firing, write_claimant(claimant), written)

    def declare_definitions(self, declaration: Declaration) -> Declared:
        """Let an owner have exactly the definitions of a declaration."""
        check_each_once(declaration.definitions)
        return self._puts.declare(declaration)

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition."""
        _, views, *_ = self._server.run("read_definitions", ids=[definition_id.hex])
        if not views:
            raise TaskDefinitionNotFoundError(definition_id)
        return self._reader.definition(views[0])

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        owner: str | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        state: DefinitionState | None = None,
        soonest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that meet every condition given."""
        found = self._lists.definitions(
            ids=ids,
            metadata=metadata,
            name=name,
            queues=_both(queue, queues),
            owners=_both(owner, owners),
            soonest_first=soonest_first,
            after=after,
            limit=limit,
        )
        in_state = (each for each in found if state is None or each.state is state)
        return list(islice(in_state, limit))

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running."""
        deleted = self._server.run("delete_definitions", now=self._now(), ids=_hex(ids))
        return {UUID(hex=id): _ids(ran) for id, ran in deleted}

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids."""
        *_, found, _ = self._server.run(
            "read_definitions", ids=_hex(ids), tombstones=True
        )
        return [each for each in map(read_tombstone, found) if each is not None]

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        return self._reader.definitions(
            self._server.run(
                "pause_definitions", now=self._now(), ids=_hex(ids), note=note
            )
        )

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        return self._reader.definitions(
            self._server.run(
                "resume_definitions",
                now=self._now(),
                ids=_hex(ids),
                soon=micros(SOON),
            )
        )

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        place: str | None = None
        found: dict[UUID, TaskDefinition] = {}
        if after is not None and after.next_fire_time is not None:
            place = time_text(after.next_fire_time) + after.id.hex
        while len(found) < limit:
            views, place = self._server.run(
                "due_definitions",
                now=self._now(),
                ahead=micros(ahead),
                after=place,
                limit=min(AHEAD, limit - len(found)),
            )
            if not place:
                break
            for each in self._reader.definitions(views):
                # Others may have fired one meanwhile, so that it is met again behind.
                found.pop(each.id, None)
                found[each.id] = each
        return list(found.values())

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        """Create the instances of each firing and move its definition on."""
        lost: list[str] = []
        for some in parts(firings, AHEAD):
            lost += self._server.run(
                "fire_definitions",
                now=self._now(),
                firings=[write_firing(each) for each in some],
            )
        return Answer(done={each.definition.id for each in firings} - _ids(lost))

    def fire_and_start(self, firings: Sequence[Firing], claimant: Claimant) -> Fired:
        """Fire definitions, and start what they make."""
        won, started = self._server.run(
            "fire_and_start",
            now=self._now(),
            firings=[write_firing(each) for each in firings],
            **write_claimant(claimant),
        )
        return Fired(done=_ids(won), started=self._reader.instances(started))


def write_firing(firing: Firing) -> dict[str, object]:
    """What a script fires; of one that is put with it the revision is not known."""
    read, skipped = firing.definition, firing.skipped
    return present(
        {
            "id": read.id.hex,
            "read": maybe_time_text(read.next_fire_time),
            "revision": read.revision,
            "instances": [
                [time_text(fire_time), time_text(at), fresh_id()]
                for fire_time, at in firing.instances()
            ],
            "skipped": None if skipped is None else write_skipped(skipped),
            "next": maybe_time_text(firing.next_fire_time),
        }
    )


def write_claimant(claimant: Claimant) -> dict[str, object]:
    """What a script needs to know of a node that claims and starts."""
    return {
        "node": claimant.node.hex,
        "lease": micros(claimant.lease),
        "expire_after": micros(claimant.expire_after),
        "runs_kept": RUNS_KEPT,
    }


def _both(one: str | None, several: Collection[str] | None) -> Collection[str] | None:
    """What is to be among both; None: anything."""
    if one is None:
        return several
    return [one] if several is None or one in several else []


def _hex(ids: Iterable[UUID]) -> list[str]:
    return list({each.hex: None for each in ids})


def _ids(found: Iterable[str]) -> Set[UUID]:
    return {read_id(each) for each in found}  # type: ignore[misc]
