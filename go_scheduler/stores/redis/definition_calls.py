"""The part of a Redis store that is about definitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.models import RUNS_KEPT
from go_scheduler.stores.base import DefinitionStore
from go_scheduler.stores.hints import SOON
from go_scheduler.stores.messages import Fired, Put
from go_scheduler.stores.redis.lists import AHEAD, DUE, RedisCalls, parts
from go_scheduler.stores.redis.rows import (
    fresh_id,
    given_time,
    maybe_time_text,
    micros,
    present,
    read_id,
    read_tombstone,
    time_text,
    write_definition,
    write_kept,
    write_new,
)
from go_scheduler.stores.rules import (
    EDITED,
    Declared,
    check_each_once,
    check_owners,
    check_revision,
    created,
    edited,
    ended_before,
    goes_on,
    is_outdated,
    is_over,
    kept,
    removal_note,
    rescheduled,
    unfired,
    was_removed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
    from datetime import datetime, timedelta

    from go_scheduler.models import (
        Skipped,
        TaskDefinition,
        TaskInstance,
    )
    from go_scheduler.stores.messages import Claimant, Firing, Tombstone
    from go_scheduler.stores.redis.rows import Reader
    from go_scheduler.stores.redis.server import Server
    from go_scheduler.stores.rules import Declaration

_TRIES = 100
"""So often a put that others overtake is planned anew."""


class _Found(NamedTuple):
    """What was read: a moment, definitions with their lives, and what is remembered."""

    now: str
    at: datetime
    stored: Mapping[UUID, TaskDefinition]
    lives: Mapping[UUID, str]
    remembered: Mapping[UUID, Tombstone]
    version: str | None

    @property
    def last_version(self) -> int | None:
        """The version of the owner's last declaration, if it had one."""
        if self.version is None:
            return None
        last: int | None = json.loads(self.version)["version"]
        return last


class Puts:
    """Inserts definitions, or replaces those that are there.

    The rules compare triggers, which only Python can do: so it is decided here by what
    was read, and the script that writes it does nothing if that has changed.

    Args:
        server: Runs the scripts.
        reader: Reads what they answer.
        now: The text of the time of the store's clock; None: it has none.
    """

    def __init__(
        self, server: Server, reader: Reader, now: Callable[[], str | None]
    ) -> None:
        self._server = server
        self._reader = reader
        self._now = now

    def put(
        self,
        given: Sequence[TaskDefinition],
        firings: Sequence[Firing],
        claimant: Claimant | None,
    ) -> Put:
        """Put definitions, each once; for a claimant those that are new fire."""
        node, first = {}, {}
        if claimant is not None:
            node = write_claimant(claimant)
            first = {each.definition.id.hex: write_firing(each) for each in firings}
        for _ in range(_TRIES):
            found = self._read(given)
            plans = [_plan(new, found) for new in given]
            answer = self._write(
                "put_definitions", found, plans=plans, firings=first, **node
            )
            if answer is not None:
                put, started = answer
                return Put(
                    definitions=self._as_put(given, put, found),
                    started=self._reader.instances(started),
                )
        raise _overtaken()

    def declare(self, declaration: Declaration) -> Declared:
        """Let an owner have these definitions, each once."""
        owner, given = declaration.owner, declaration.definitions
        for _ in range(_TRIES):
            found = self._read(given, owner)
            last = found.last_version
            if is_outdated(declaration.version, last):
                return Declared(outdated_by=last)
            check_owners(declaration, found.stored)
            plans = [_plan(new, found, owner) for new in given]
            again = {id for id, each in found.stored.items() if was_removed(each)}
            for new, plan in zip(given, plans, strict=True):
                plan["resumes"] = new.id in again
            answer = self._write(
                "declare_definitions",
                found,
                plans=plans,
                owner=owner,
                version=found.version,
                declared=json.dumps(
                    {"version": declaration.version, "declared_at": found.now}
                ),
                removed=declaration.removed,
                note=removal_note(owner),
            )
            if answer is not None:
                put, resumed, deleted, paused = answer
                return Declared(
                    definitions=self._as_put(given, put, found),
                    resumed=self._reader.definitions(resumed),
                    deleted={read_id(each) for each in deleted},  # type: ignore[misc]
                    paused=self._reader.definitions(paused),
                )
        raise _overtaken()

    def _read(
        self, given: Collection[TaskDefinition], owner: str | None = None
    ) -> _Found:
        now, views, remembered, version = self._server.run(
            "read_definitions",
            now=self._now(),
            ids=[each.id.hex for each in given],
            tombstones=True,
            owner=owner,
        )
        stored = self._reader.definitions(views)
        tombstones = filter(None, map(read_tombstone, remembered))
        return _Found(
            now=now,
            at=given_time(now),
            stored={each.id: each for each in stored},
            lives={each.id: view[0] for each, view in zip(stored, views, strict=True)},
            remembered={each.id: each for each in tombstones},
            version=version,
        )

    def _write(self, name: str, found: _Found, **arguments: Any) -> Any:
        return self._server.run(
            name, now=found.now, edited=EDITED, soon=micros(SOON), **arguments
        )

    def _as_put(
        self, given: Sequence[TaskDefinition], answer: Sequence[Any], found: _Found
    ) -> list[TaskDefinition]:
        return [
            ended_before(new, found.remembered[new.id])
            if view is None
            else self._reader.definition(view)
            for new, view in zip(given, answer, strict=True)
        ]


def _plan(
    new: TaskDefinition, found: _Found, owner: str | None = None
) -> dict[str, Any]:
    """What a script is to do, and what has to be as it was read."""
    stored = found.stored.get(new.id)
    if stored is None:
        return _plan_new(new, found, owner)
    check_revision(new, stored)
    plan = present(
        {
            "id": new.id.hex,
            "life": found.lives[new.id],
            "revision": stored.revision,
            "read": maybe_time_text(stored.next_fire_time),
            "owner": stored.owner,
            "note": stored.note,
        }
    )
    owned = {} if owner is None else {"owner": owner}
    if new.is_same(stored):
        named = {"named": "1"} if kept(stored, new).named else {}
        return {**plan, "action": "kept", "values": named | owned}
    if goes_on(stored, new):
        values = write_definition(edited(stored, new))
        return {
            **plan,
            "action": "edited",
            "values": values | owned,
            "takes_back": new.jitter != stored.jitter,
        }
    put = rescheduled(stored, new, found.at)
    values = write_definition(put) | write_kept(put) | owned
    plan |= {"action": "rescheduled", "values": values}
    if (skipped := unfired(stored, found.at)) is not None:
        plan["skipped"] = write_skipped(skipped)
    # On purpose.
    plan["goes_back"] = put.overdue
    return plan


def _plan_new(new: TaskDefinition, found: _Found, owner: str | None) -> dict[str, Any]:
    remembered = found.remembered.get(new.id) if new.named else None
    check_revision(new, remembered)
    plan: dict[str, Any] = {"id": new.id.hex, "looked": new.named}
    if remembered is not None:
        plan["remembered"] = str(remembered.revision)
    if is_over(new, remembered):
        return {**plan, "action": "over"}
    put = created(new, found.at, revision=1, owner=owner)
    return {**plan, "action": "new", "values": write_new(put)}


def write_skipped(skipped: Skipped) -> dict[str, object]:
    """What a script makes a record of."""
    return {
        "id": fresh_id(),
        "first": time_text(skipped.first),
        "last": time_text(skipped.last),
        "count": skipped.count,
        "reason": skipped.reason,
    }


def _overtaken() -> StoreUnavailableError:
    return StoreUnavailableError(
        "Redis: others change the same definitions all the time; try again"
    )


class RedisDefinitions(RedisCalls, DefinitionStore):
    """What a ``RedisStore`` does with definitions."""

    _puts: Puts

    def put_definitions(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        firings: Sequence[Firing] = (),
        claimant: Claimant | None = None,
    ) -> Put:
        """Insert each definition, or replace the one with its id."""
        check_each_once(definitions)
        if not definitions:
            return Put(definitions=[])
        return self._puts.put(definitions, firings, claimant)

    def declare_definitions(self, declaration: Declaration) -> Declared:
        """Let an owner have exactly the definitions of a declaration."""
        check_each_once(declaration.definitions)
        return self._puts.declare(declaration)

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

    def fire_definitions(
        self, firings: Sequence[Firing], *, claimant: Claimant | None = None
    ) -> Fired:
        """Create the instances of each firing and move its definition on."""
        node = {} if claimant is None else write_claimant(claimant)
        lost: list[str] = []
        started: list[TaskInstance] = []
        for some in parts(firings, AHEAD if claimant is None else DUE):
            lost_of_these, views = self._server.run(
                "fire_definitions",
                now=self._now(),
                firings=[write_firing(each) for each in some],
                **node,
            )
            lost += lost_of_these
            started += self._reader.instances(views)
        done = {each.definition.id for each in firings} - _ids(lost)
        return Fired(done=done, started=started)


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


def _hex(ids: Iterable[UUID]) -> list[str]:
    return list({each.hex: None for each in ids})


def _ids(found: Iterable[str]) -> Set[UUID]:
    return {read_id(each) for each in found}  # type: ignore[misc]
