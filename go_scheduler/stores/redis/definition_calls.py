"""The part of a Redis store that is about definitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores import rules
from go_scheduler.stores.base import DefinitionStore
from go_scheduler.stores.hints import SOON
from go_scheduler.stores.messages import Fired, Put
from go_scheduler.stores.redis.lists import AHEAD, DUE, RedisCalls, parts
from go_scheduler.stores.redis.rows import (
    TIMES,
    fields_of,
    given_time,
    present,
    read_ids,
    read_tombstone,
    time_text,
    write_definition,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import timedelta

    from go_scheduler.models import Skipped, TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Claimant, Firing, Own, Tombstone
    from go_scheduler.stores.rules import Declaration

_TRIES = 100
"""So often a put that others overtake is planned anew."""


class RedisDefinitions(RedisCalls, DefinitionStore):
    """What a ``RedisStore`` does with definitions.

    The rules of a put compare triggers, which only Python can do: so it is decided here
    by what was read, and the script that writes it does nothing if that has changed.
    """

    def put_definitions(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        firings: Sequence[Firing] = (),
        claimant: Claimant | None = None,
    ) -> Put:
        """Insert each definition, or replace the one with its id."""
        rules.check_each_once(definitions)
        if not definitions:
            return Put(definitions=[])
        first = {each.definition.id.hex: _firing(each) for each in firings}
        for _ in range(_TRIES):
            found = self._find(definitions)
            answer = self._run(
                "put_definitions",
                now=found.now,
                plans=[_plan(new, found) for new in definitions],
                firings=first if claimant else {},
                claimant=claimant,
                edited=rules.EDITED,
                soon=SOON,
            )
            if answer is not None:
                put, started = answer
                return Put(
                    definitions=self._as_put(definitions, put, found),
                    started=self._reader.instances(started),
                )
        raise _overtaken()

    def declare_definitions(self, declaration: Declaration) -> rules.Declared:
        """Let an owner have exactly the definitions of a declaration."""
        owner, given = declaration.owner, declaration.definitions
        rules.check_each_once(given)
        for _ in range(_TRIES):
            found = self._find(given, owner)
            last = None if found.set is None else json.loads(found.set)["version"]
            if rules.is_outdated(declaration.version, last):
                return rules.Declared(outdated_by=last)
            rules.check_owners(declaration, found.stored)
            answer = self._run(
                "declare_definitions",
                now=found.now,
                plans=[_plan(new, found, owner) for new in given],
                owner=owner,
                version=found.set,
                declared=json.dumps(
                    {"version": declaration.version, "declared_at": found.now}
                ),
                removed=declaration.removed,
                note=rules.removal_note(owner),
                edited=rules.EDITED,
                soon=SOON,
            )
            if answer is not None:
                put, resumed, deleted, paused = answer
                return rules.Declared(
                    definitions=self._as_put(given, put, found),
                    resumed=self._reader.definitions(resumed),
                    deleted=set(read_ids(deleted)),
                    paused=self._reader.definitions(paused),
                )
        raise _overtaken()

    def _find(
        self, given: Collection[TaskDefinition], owner: str | None = None
    ) -> _Found:
        now, views, remembered, last = self._run(
            "read_definitions",
            ids=[each.id for each in given],
            tombstones=True,
            owner=owner,
        )
        stored = self._reader.definitions(views)
        tombstones = filter(None, map(read_tombstone, remembered))
        return _Found(
            now=now,
            stored={each.id: each for each in stored},
            remembered={each.id: each for each in tombstones},
            set=last,
        )

    def _as_put(
        self, given: Sequence[TaskDefinition], answer: Sequence[Any], found: _Found
    ) -> list[TaskDefinition]:
        return [
            rules.ended_before(new, found.remembered[new.id])
            if view is None
            else self._reader.definition(view)
            for new, view in zip(given, answer, strict=True)
        ]

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running."""
        deleted = self._run("delete_definitions", ids=set(ids))
        return {UUID(hex=id): set(read_ids(ran)) for id, ran in deleted}

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids."""
        *_, found, _ = self._run("read_definitions", ids=set(ids), tombstones=True)
        return [each for each in map(read_tombstone, found) if each is not None]

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        views = self._run("pause_definitions", ids=set(ids), note=note)
        return self._reader.definitions(views)

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        views = self._run("resume_definitions", ids=set(ids), soon=SOON)
        return self._reader.definitions(views)

    def due_definitions(
        self,
        *,
        ahead: timedelta,
        after: TaskDefinition | None = None,
        limit: int,
        own: Own | None = None,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        place: str | None = None
        found: dict[UUID, TaskDefinition] = {}
        if after is not None and after.next_fire_time is not None:
            place = time_text(after.next_fire_time) + after.id.hex
        while len(found) < limit:
            views, place = self._run(
                "due_definitions",
                ahead=ahead,
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

    def fire_definitions(
        self, firings: Sequence[Firing], *, claimant: Claimant | None = None
    ) -> Fired:
        """Create the instances of each firing and move its definition on."""
        lost: list[str] = []
        started: list[TaskInstance] = []
        for some in parts(firings, AHEAD if claimant is None else DUE):
            lost_of_these, views = self._run(
                "fire_definitions", firings=list(map(_firing, some)), claimant=claimant
            )
            lost += lost_of_these
            started += self._reader.instances(views)
        done = {each.definition.id for each in firings}
        return Fired(done=done.difference(read_ids(lost)), started=started)


class _Found(NamedTuple):
    """What there is of definitions that are put.

    Attributes:
        now: When it was read.
        stored: The definitions that there are.
        remembered: The tombstones.
        set: The last declaration of the owner.
    """

    now: str
    stored: Mapping[UUID, TaskDefinition]
    remembered: Mapping[UUID, Tombstone]
    set: str | None


def _plan(
    new: TaskDefinition, found: _Found, owner: str | None = None
) -> dict[str, Any]:
    """What a script is to do, and what has to be as it was read.

    A revision is that of one definition: a new one of the same id has a higher one.
    """
    stored, now = found.stored.get(new.id), given_time(found.now)
    if stored is None:
        remembered = found.remembered.get(new.id) if new.named else None
        rules.check_revision(new, remembered)
        plan: dict[str, Any] = {"id": new.id, "looked": new.named}
        if remembered is not None:
            plan["remembered"] = str(remembered.revision)
        if rules.is_over(new, remembered):
            return {**plan, "action": "over"}
        put = rules.created(new, now, revision=1, owner=owner)
        return {**plan, "action": "new", "values": write_definition(put)}
    rules.check_revision(new, stored)
    plan = fields_of(stored, "id", "revision", "next_fire_time", "owner", "note")
    plan["resumes"] = owner is not None and rules.was_removed(stored)
    if new.is_same(stored):
        same = rules.kept(stored, new, owner=owner)
        owned = {"named": "1" if same.named else None, "owner": same.owner}
        return {**plan, "action": "kept", "values": present(owned)}
    if rules.goes_on(stored, new):
        values = write_definition(rules.edited(stored, new, owner=owner))
        # Somebody may fire it meanwhile.
        values = {name: values[name] for name in values.keys() - TIMES}
        takes_back = new.jitter != stored.jitter
        return {**plan, "action": "edited", "values": values, "takes_back": takes_back}
    if (skipped := rules.unfired(stored, now)) is not None:
        plan["skipped"] = _record(skipped)
    put = rules.rescheduled(stored, new, now, owner=owner)
    # What is overdue goes back on purpose.
    plan |= {"action": "rescheduled", "goes_back": put.overdue}
    return {**plan, "values": write_definition(put)}


def _firing(firing: Firing) -> dict[str, Any]:
    """What a script fires; of one that is put with it the revision is not known."""
    skipped = firing.skipped
    return {
        **fields_of(firing.definition, "id", "next_fire_time", "revision"),
        **present({"next": firing.next_fire_time}),
        **({} if skipped is None else {"skipped": _record(skipped)}),
        "instances": [(*each, uuid4().hex) for each in firing.instances()],
    }


def _record(skipped: Skipped) -> dict[str, Any]:
    """What a script makes the record of skipped fire times of."""
    return {"id": uuid4(), **fields_of(skipped, "first", "last", "count", "reason")}


def _overtaken() -> StoreUnavailableError:
    return StoreUnavailableError(
        "Redis: others change the same definitions all the time; try again"
    )
