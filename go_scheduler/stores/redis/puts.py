"""How definitions are put: planned by what was read, and done if that still holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores.changes import (
    EDITED,
    check_revision,
    created,
    edited,
    goes_on,
    kept,
    rescheduled,
)
from go_scheduler.stores.declared import (
    Declared,
    check_owners,
    is_outdated,
    removal_note,
    was_removed,
)
from go_scheduler.stores.hints import SOON
from go_scheduler.stores.redis.rows import (
    given_time,
    read_tombstone,
    write_definition,
    write_kept,
    write_new,
)
from go_scheduler.stores.redis.texts import (
    fresh_id,
    maybe_time_text,
    micros,
    present,
    read_id,
    time_text,
)
from go_scheduler.stores.remembered import ended_before, is_over
from go_scheduler.stores.unfired import unfired

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import Skipped, TaskDefinition, TaskInstance
    from go_scheduler.stores.declared import Declaration
    from go_scheduler.stores.messages import Firing, Tombstone
    from go_scheduler.stores.redis.rows import Reader
    from go_scheduler.stores.redis.server import Server

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

    def put(self, given: Sequence[TaskDefinition]) -> list[TaskDefinition]:
        """Put definitions, each once."""
        for _ in range(_TRIES):
            found = self._read(given)
            plans = [_plan(new, found) for new in given]
            answer = self._write("put_definitions", found, plans=plans)
            if answer is not None:
                return self._as_put(given, answer, found)
        raise _overtaken()

    def put_and_start(
        self, firing: Firing, claimant: dict[str, object], written: dict[str, object]
    ) -> tuple[TaskDefinition, TaskInstance | None]:
        """Put one definition, and start its instance if it is new."""
        new = firing.definition
        for _ in range(_TRIES):
            found = self._read([new])
            plan = _plan(new, found)
            answer = self._write(
                "put_and_start", found, plan=plan, firing=written, **claimant
            )
            if answer is not None:
                [put] = self._as_put([new], answer[:1], found)
                if len(answer) == 1:
                    return put, None
                [instance] = self._reader.instances(answer[1])
                return put, instance
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
