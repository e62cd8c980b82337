"""What a ``MemoryStore`` does with definitions: puts, edits, pauses, fires."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import Outcome, Skipped, TaskDefinition
from go_scheduler.models.values import changed
from go_scheduler.stores import rules
from go_scheduler.stores.base import DefinitionStore
from go_scheduler.stores.memory.tables import StoredDefinition, StoredInstance, Tables
from go_scheduler.stores.messages import Claimant, Fired, Firing, Own, Put, Tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.stores.rules import Declaration


class MemoryDefinitions(DefinitionStore):
    """What a ``MemoryStore`` does with definitions, under its lock."""

    _locked: Callable[[], AbstractContextManager[Tables]]

    def put_definitions(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        firings: Sequence[Firing] = (),
        claimant: Claimant | None = None,
    ) -> Put:
        """Insert each definition, or replace the one with its id."""
        rules.check_each_once(definitions)
        with self._locked() as tables:
            actions = _actions(definitions, tables)
            put = [
                _put(new, action, tables)
                for new, action in zip(definitions, actions, strict=True)
            ]
            if claimant is None:
                return Put(definitions=put)
            first = {each.definition.id: each for each in firings}
            made: list[StoredInstance] = []
            for action, each in zip(actions, put, strict=True):
                if action == "new" and each.id in first:
                    firing = replace(first[each.id], definition=each)
                    made += _fire(firing, tables) or ()
            start_new(made, tables, claimant)
            return Put(definitions=put, started=[row.view() for row in made])

    def declare_definitions(self, declaration: Declaration) -> rules.Declared:
        """Let an owner have exactly the definitions of a declaration."""
        rules.check_each_once(declaration.definitions)
        owner, version = declaration.owner, declaration.version
        with self._locked() as tables:
            last = tables.sets.get(owner)
            if last is not None and rules.is_outdated(version, last.version):
                return rules.Declared(outdated_by=last.version)
            ids = {each.id for each in declaration.definitions}
            found = tables.find_definitions(ids)
            rules.check_owners(
                declaration, {of.definition.id: of.definition for of in found}
            )
            actions = _actions(declaration.definitions, tables)
            # Nothing is refused from here on.
            tables.sets[owner] = rules.SetVersion(
                owner=owner, version=version, declared_at=tables.now
            )
            again = [of for of in found if rules.was_removed(of.definition)]
            put = [
                _put(new, action, tables, owner=owner)
                for new, action in zip(declaration.definitions, actions, strict=True)
            ]
            for of in again:
                _resume(of, tables)
            resumed = {of.definition.id: of.definition for of in again}
            gone = [
                of
                for of in tables.definitions.values()
                if of.definition.owner == owner and of.definition.id not in ids
            ]
            deleted = gone if declaration.removed == "delete" else []
            for of in deleted:
                _delete(of, tables)
            pauses = declaration.removed == "pause"
            paused = [of for of in gone if pauses and not of.definition.paused]
            for of in paused:
                _pause(of, rules.removal_note(owner), tables)
            return rules.Declared(
                definitions=[resumed.get(each.id, each) for each in put],
                resumed=list(resumed.values()),
                deleted={of.definition.id for of in deleted},
                paused=[of.definition for of in paused],
            )

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running."""
        with self._locked() as tables:
            found = tables.find_definitions(ids)
            ran = {of.definition.id: _delete(of, tables) for of in found}
            for each in ids:
                tables.tombstones.pop(each, None)
            return ran

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids."""
        with self._locked() as tables:
            tombstones = tables.tombstones
            return [tombstones[each] for each in set(ids) if each in tombstones]

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        with self._locked() as tables:
            found = tables.find_definitions(ids)
            for of in found:
                _pause(of, note, tables)
            return [of.definition for of in found]

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        with self._locked() as tables:
            found = tables.find_definitions(ids)
            for of in found:
                _resume(of, tables)
            return [of.definition for of in found]

    def due_definitions(
        self,
        *,
        ahead: timedelta,
        after: TaskDefinition | None = None,
        limit: int,
        own: Own | None = None,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        with self._locked() as tables:
            return tables.due(tables.now + ahead, after, limit)

    def fire_definitions(
        self, firings: Sequence[Firing], *, claimant: Claimant | None = None
    ) -> Fired:
        """Create the instances of each firing and move its definition on."""
        done: set[UUID] = set()
        made: list[StoredInstance] = []
        with self._locked() as tables:
            for firing in firings:
                rows = _fire(firing, tables)
                if rows is not None:
                    done.add(firing.definition.id)
                    made += rows
            if claimant is None:
                return Fired(done=done)
            start_new(made, tables, claimant)
            return Fired(done=done, started=[row.view() for row in made])


def _actions(
    definitions: Sequence[TaskDefinition], tables: Tables
) -> Sequence[rules.PutAction]:
    """What a put does with each: all is decided before anything changes."""
    found = []
    for new in definitions:
        of = tables.definitions.get(new.id.int)
        stored = None if of is None else of.definition
        found.append(rules.put_action(new, stored, tables.tombstones.get(new.id)))
    return found


def _put(
    new: TaskDefinition,
    action: rules.PutAction,
    tables: Tables,
    *,
    owner: str | None = None,
) -> TaskDefinition:
    """Insert or replace a definition; an owner declares it."""
    if action == "over":
        return rules.ended_before(new, tables.tombstones[new.id])
    if action == "new":
        if new.named:
            tables.tombstones.pop(new.id, None)
        stored = rules.created(
            new, tables.now, revision=tables.first_revision, owner=owner
        )
        tables.add_definition(StoredDefinition(stored))
        return stored
    of = tables.definitions[new.id.int]
    if action == "kept":
        of.definition = rules.kept(of.definition, new, owner=owner)
    elif action == "edited":
        if new.jitter != of.definition.jitter:
            _take_back(of, tables)
        _edit(of, rules.edited(of.definition, new, owner=owner), tables)
    else:
        _discard(of, tables)
        if (skipped := rules.unfired(of.definition, tables.now)) is not None:
            _record(of, skipped, tables)
        _note_begun(of, new, tables)
        _edit(
            of, rules.rescheduled(of.definition, new, tables.now, owner=owner), tables
        )
    return of.definition


def _edit(of: StoredDefinition, new: TaskDefinition, tables: Tables) -> None:
    """Replace a definition, and what its open instances have of it."""
    old = of.definition
    excludes_the_same = rules.exclusion_of(new) == rules.exclusion_of(old)
    with tables.relisted(of) as rows:
        tables.replace(of, new)
        for row in rows:
            queue = row.queue
            row.move()
            # Other nodes serve it there.
            if row.is_claimed and row.queue != queue:
                row.free(row.due_at)
            if excludes_the_same:
                continue
            # What runs in a slot keeps it until it has ended.
            if not row.is_running or tables.slots.holder(row.slot) is not row:
                tables.slots.free(row)
                row.parked = False
                row.follow()


def _take_back(of: StoredDefinition, tables: Tables) -> None:
    """Remove what is to come, behind the last that stays, to be fired anew."""
    coming = [
        (row.fire_time, row)
        for row in of.instances.values()
        if row.fire_time is not None and row.fire_time > tables.now
    ]
    last = max((at for at, row in coming if not row.is_unused), default=tables.now)
    removed = [(at, row) for at, row in coming if at > last]
    for _, row in removed:
        tables.remove(row)
    if removed:
        times = filter(None, [of.definition.next_fire_time, *(at for at, _ in removed)])
        tables.change(of, next_fire_time=min(times), completed_at=None)


def _discard(of: StoredDefinition, tables: Tables) -> None:
    """Remove what is to come; what has a fire time that has passed is skipped."""
    for row in [row for row in of.instances.values() if row.is_unused]:
        assert row.fire_time is not None
        if row.fire_time > tables.now:
            tables.remove(row)
            continue
        tables.end(row, Outcome.SKIPPED)
        row.claimed_by = None
        row.forget_worker()
        row.skipped = Skipped.itself(row.fire_time, rules.EDITED)
        # The fire time is free for the new trigger.
        of.instances[row.id] = of.instances.pop(row.fire_time)
        row.fire_time = None


def _note_begun(of: StoredDefinition, new: TaskDefinition, tables: Tables) -> None:
    """Note what has begun ahead of its time: another trigger does not fire it again."""
    times = (row.fire_time for row in of.instances.values())
    begun = [each for each in times if each is not None and each > tables.now]
    if begun:
        of.fired_until = max(begun)
    elif new.overdue:
        of.fired_until = None


def _record(of: StoredDefinition, skipped: Skipped, tables: Tables) -> None:
    """Make the record of fire times that were skipped."""
    row = tables.make(of, None, skipped.first)
    row.skipped = skipped
    tables.end(row, Outcome.SKIPPED)


def _pause(of: StoredDefinition, note: str | None, tables: Tables) -> None:
    """Pause a definition; one that is paused already only takes the note."""
    if of.definition.paused:
        of.definition = changed(of.definition, note=note)
        return
    _take_back(of, tables)
    revision = rules.next_revision(of.definition)
    with tables.relisted(of) as rows:
        for row in rows:
            if row.is_claimed:
                row.free(row.due_at)
            if row.is_unused:
                tables.slots.free(row)
        tables.change(
            of, paused=True, note=note, paused_at=tables.now, revision=revision
        )


def _resume(of: StoredDefinition, tables: Tables) -> None:
    """End a definition's pause, if it is paused."""
    if of.definition.paused:
        with tables.relisted(of) as rows:
            tables.replace(of, rules.resumed(of.definition, tables.now))
            for row in rows:
                if row.expires_at is not None:
                    row.expires_at = max(row.expires_at, tables.now)


def _delete(of: StoredDefinition, tables: Tables) -> Set[UUID]:
    """Delete a definition and what has not started of it; cancel what runs.

    Returns:
        The ids of the instances that ran.
    """
    rows = [row for row in of.instances.values() if row.completed_at is None]
    ran = {row.id for row in rows if row.is_running}
    for row in rows:
        if row.id in ran:
            tables.end(row, Outcome.CANCELLED)
        else:
            tables.remove(row)
    tables.remove_definition(of)
    tables.tombstones.pop(of.definition.id, None)
    return ran


def _fire(firing: Firing, tables: Tables) -> Sequence[StoredInstance] | None:
    """Create the instances of a firing; None: its definition is not as read."""
    read = firing.definition
    of = tables.definitions.get(read.id.int)
    if of is None:
        return None
    stored = of.definition
    if stored.paused or (stored.trigger.waits and of.open):
        return None
    if stored.next_fire_time != read.next_fire_time or stored.revision != read.revision:
        return None
    if firing.skipped is not None:
        _record(of, firing.skipped, tables)
    made = []
    for fire_time, at in firing.instances():
        if fire_time not in of.instances and fire_time != of.fired_until:
            made.append(tables.make(of, fire_time, at))
    tables.replace(of, rules.fired(stored, firing.next_fire_time, tables.now))
    return made


def start_new(
    rows: Sequence[StoredInstance], tables: Tables, claimant: Claimant
) -> None:
    """Claim what has just been made, and start what needs no slot."""
    for row in rows:
        tables.leave(row)
        row.claim(claimant, tables.now)
        if row.slot is None:
            row.start(claimant, tables.now)
        tables.enter(row)
