"""How definitions are put and sets of them declared, each batch in one transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from sqlalchemy import func, insert, or_, select, update

from go_scheduler.models import Outcome
from go_scheduler.models.values import new_ids
from go_scheduler.policies import Overlap
from go_scheduler.stores import rules
from go_scheduler.stores.sql.database import LATE_AFTER, Overtaken
from go_scheduler.stores.sql.edits import (
    EXCLUDE,
    FOLLOW,
    FREE_UNSTARTED,
    LET_GO,
    LOCK_OPEN,
    NOTE_BEGUN,
    REMOVE_UNUSED,
    SKIP_UNUSED,
    SQLEdits,
    definition_of,
    free_slots,
)
from go_scheduler.stores.sql.rows import EARLIEST, LATEST, write_definition
from go_scheduler.stores.sql.tables import contents, definitions, instances, sets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from go_scheduler.models import Skipped, TaskDefinition
    from go_scheduler.stores.messages import Tombstone
    from go_scheduler.stores.rules import Declaration
    from go_scheduler.stores.sql.statement import Batch

LARGE_BATCH = 500
"""A put of more definitions may be seen late."""

# All nodes of an application declare the same, commonly at once.
_WAITS_TO_DECLARE = 4
# Columns that follow the definition, for claims and starts without a join.
_FOLLOWING = ("queue", "priority", "expire_after", "waits")
_EXCLUDING = ("slot", "overlap", "waits")


class SQLPuts(SQLEdits):
    """Replaces definitions that are there, and declares sets of them."""

    def _put_over(
        self,
        connection: Connection,
        rows: Sequence[Row[Any]],
        given: Sequence[TaskDefinition],
        *,
        late: bool,
        owner: str | None = None,
    ) -> Sequence[TaskDefinition]:
        """Insert or replace definitions, of which these have been read.

        Args:
            connection: In a transaction.
            rows: Those that are there.
            given: The definitions, each once.
            late: Whether others may see them only much later.
            owner: Who declares them; None: nobody, they stay whose they are.

        Raises:
            Overtaken: One is not as it was read, or is there by now.
        """
        now = self._dialect.now(connection)
        stored = {row.id: row for row in rows}
        named = [each.id for each in given if each.named and each.id not in stored]
        remembered = self._tombstones.find(connection, named)
        for new in given:
            row = stored.get(new.id)
            rules.check_revision(
                new, remembered.get(new.id) if row is None else definition_of(row)
            )
        over = {
            new.id: rules.ended_before(new, remembered[new.id])
            for new in given
            if rules.is_over(new, remembered.get(new.id))
        }
        # One order for all nodes, so that none waits for another in a circle.
        ordered = sorted(given, key=lambda each: each.id)
        known = stored.keys() | over.keys()
        fresh = [each for each in ordered if each.id not in known]
        how = _How(now, late, owner)
        put = over | self._insert_again(connection, fresh, remembered, how)
        for new in ordered:
            if (row := stored.get(new.id)) is not None:
                put[new.id] = self._replace(connection, row, new, how)
        changed = (
            each
            for id, each in put.items()
            if id not in over
            and (id not in stored or each.revision != stored[id].revision)
        )
        times = (each.next_fire_time for each in changed)
        self._dialect.hint(connection, times, now, late=late)
        return [put[each.id] for each in given]

    def _insert_again(
        self,
        connection: Connection,
        given: Sequence[TaskDefinition],
        remembered: Mapping[UUID, Tombstone],
        how: _How,
    ) -> dict[UUID, TaskDefinition]:
        if not given:
            return {}
        ids = [each.id for each in given]
        last = self._last_revisions(connection, ids)
        again = [remembered[each] for each in ids if each in remembered]
        self._tombstones.forget(connection, [each.id for each in again])
        last |= {each.id: each.revision for each in again}
        made = [
            rules.created(
                each, how.now, revision=last.get(each.id, 0) + 1, owner=how.owner
            )
            for each in given
        ]
        self._write(connection, made, how)
        return {each.id: each for each in made}

    def _write(
        self, connection: Connection, made: Sequence[TaskDefinition], how: _How
    ) -> None:
        """Write definitions and their contents, each by one statement.

        It is one statement for what it returns; otherwise it would be one for each.
        """
        keys = new_ids(len(made))
        rows = [
            {
                **write_definition(each),
                **_moment(each, how),
                "paused": each.paused,
                "note": each.note,
                "paused_at": each.paused_at,
                "key": key,
                "id": each.id,
                "shard": self._dialect.shard_of(key),
                "created_at": how.now,
            }
            for key, each in zip(keys, made, strict=True)
        ]
        new = self._dialect.insert(definitions).on_conflict_do_nothing(
            index_elements=[definitions.c.id],
            index_where=definitions.c.deleted_at.is_(None),
        )
        inserted = connection.execute(new.returning(definitions.c.id), rows)
        if len(inserted.all()) < len(made):
            raise Overtaken
        connection.execute(
            insert(contents).returning(contents.c.key),
            [
                {"key": key, **self._dialect.write_contents(each)}
                for key, each in zip(keys, made, strict=True)
            ],
        )

    def _last_revisions(
        self, connection: Connection, ids: Collection[UUID]
    ) -> dict[UUID, int]:
        """The highest revisions that deleted definitions of these ids had."""
        query = (
            select(definitions.c.id, func.max(definitions.c.revision))
            .where(
                self._dialect.among(definitions.c.id, ids),
                definitions.c.deleted_at.is_not(None),
            )
            .group_by(definitions.c.id)
        )
        query = self._dialect.looked_up(
            query, definitions, "task_definitions_former_idx"
        )
        return {row[0]: row[1] for row in connection.execute(query)}

    def _replace(
        self,
        connection: Connection,
        row: Row[Any],
        new: TaskDefinition,
        how: _How,
    ) -> TaskDefinition:
        old = definition_of(row)
        if new.is_same(old):
            return self._keep(
                connection, row, old, rules.kept(old, new, owner=how.owner)
            )
        moment: dict[str, object] = {}
        skipped = None
        if rules.goes_on(old, new):
            changed = rules.edited(old, new, owner=how.owner)
        else:
            changed = rules.rescheduled(old, new, how.now, owner=how.owner)
            moment = _moment(changed, how)
            if changed.overdue:
                # It goes back on purpose.
                moment["fired_until"] = None
            skipped = rules.unfired(old, how.now)
        columns = {**write_definition(changed), **moment}
        written = self._change(
            connection, row, columns, unless_fired=skipped is not None
        )
        connection.execute(
            update(contents)
            .where(contents.c.key == row.key)
            .values(self._dialect.write_contents(changed))
        )
        self._follow(connection, row, changed)
        if moment:
            self._discard(connection, row)
            if skipped is not None:
                self._record(connection, row, skipped, how.now)
        elif changed.jitter != old.jitter:
            written = self._take_back(connection, row, written)
        return replace(
            changed,
            next_fire_time=written.next_fire_time,
            completed_at=written.completed_at,
        )

    def _discard(self, connection: Connection, row: Row[Any]) -> None:
        """Remove what is to come by the former trigger, and skip what has passed."""
        execute, theirs = self._execute(connection), {"k": [(row.key,)]}
        execute(REMOVE_UNUSED, {"latest": LATEST}, theirs)
        execute(SKIP_UNUSED, {"earliest": EARLIEST, "reason": rules.EDITED}, theirs)
        # It may be gone when the other trigger fires.
        execute(NOTE_BEGUN, {"latest": LATEST}, theirs)
        free_slots(execute, [row.slot])

    def _record(
        self, connection: Connection, row: Row[Any], skipped: Skipped, now: datetime
    ) -> None:
        """Record what had passed by the former trigger and has no instance."""
        id = uuid4()
        record = insert(instances).values(
            id=id,
            definition_key=row.key,
            shard=self._dialect.shard_of(id),
            queue=row.queue,
            priority=row.priority,
            execute_at=skipped.first,
            due_at=skipped.first,
            outcome=Outcome.SKIPPED.value,
            completed_at=now,
            created_at=now,
            skipped_first=skipped.first,
            skipped_last=skipped.last,
            skipped_count=skipped.count,
            skipped_reason=skipped.reason,
        )
        connection.execute(record)

    def _follow(
        self, connection: Connection, row: Row[Any], new: TaskDefinition
    ) -> None:
        """Give open instances the columns that have changed."""
        columns = write_definition(new)
        changed = {name for name in columns if columns[name] != getattr(row, name)}
        follows = changed.intersection(_FOLLOWING)
        excludes = changed.intersection(_EXCLUDING)
        execute, theirs = self._execute(connection), {"k": [(row.key,)]}
        # Instances that nothing changes for are not locked: they go on meanwhile.
        if follows or excludes:
            execute(LOCK_OPEN, {}, theirs)
        if follows:
            moves = bool(follows & {"queue", "priority"})
            terms = {name: columns[name] for name in _FOLLOWING}
            execute(FOLLOW, {**terms, "moves": moves}, theirs)
        if "queue" in follows:
            execute(FREE_UNSTARTED, {}, theirs)
        if excludes:
            execute(LET_GO, {}, theirs)
            execute(EXCLUDE, {}, {**theirs, "x": _kinds(new)})

    def _keep(
        self,
        connection: Connection,
        row: Row[Any],
        old: TaskDefinition,
        kept: TaskDefinition,
    ) -> TaskDefinition:
        """Write whose it is by now, and that somebody has passed its id."""
        changed = {
            name: getattr(kept, name)
            for name in ("named", "owner")
            if getattr(kept, name) != getattr(old, name)
        }
        if changed:
            self._change(connection, row, changed)
        return kept

    def declare_definitions(self, declaration: Declaration) -> rules.Declared:
        """Let an owner have exactly the definitions of a declaration."""
        given = declaration.definitions
        rules.check_each_once(given)
        late = self._dialect.joined or len(given) > LARGE_BATCH
        return self._database.transact(
            lambda connection: self._declare(connection, declaration, late=late),
            repeatable=all(each.revision is None for each in given),
            waits=_WAITS_TO_DECLARE,
        )

    def _declare(
        self, connection: Connection, declaration: Declaration, *, late: bool
    ) -> rules.Declared:
        owner = declaration.owner
        if not self._enter(connection, declaration):
            last = select(sets.c.version).where(sets.c.owner == owner)
            return rules.Declared(outdated_by=connection.execute(last).scalar_one())
        ids = [each.id for each in declaration.definitions]
        rows = self._live(connection, ids)
        stored = {row.id: definition_of(row) for row in rows}
        rules.check_owners(declaration, stored)
        put = self._put_over(
            connection, rows, declaration.definitions, late=late, owner=owner
        )
        again = [each.id for each in stored.values() if rules.was_removed(each)]
        resumed = self._resume(connection, again) if again else ()
        if any(each.owner != owner for each in resumed):
            # One that is kept as it was is not written, and may have been taken.
            raise Overtaken
        as_stored = {each.id: each for each in (*put, *resumed)}
        declared = rules.Declared(
            definitions=[as_stored[each] for each in ids], resumed=resumed
        )
        if declaration.removed == "keep":
            return declared
        gone = self._owned(connection, owner, apart_from=ids)
        if declaration.removed == "pause":
            return replace(declared, paused=self._pause_owned(connection, gone, owner))
        deleted = self._delete_ids(connection, [*gone])
        return replace(declared, deleted=deleted.keys())

    def _enter(self, connection: Connection, declaration: Declaration) -> bool:
        """Enter a declaration, unless a later one has been made.

        From here on, no other one of this owner is until the transaction has ended.
        """
        new = self._dialect.insert(sets).values(
            owner=declaration.owner,
            version=declaration.version,
            declared_at=self._dialect.now(connection),
        )
        entered = new.on_conflict_do_update(
            index_elements=[sets.c.owner],
            set_={
                "version": new.excluded.version,
                "declared_at": new.excluded.declared_at,
            },
            where=or_(sets.c.version.is_(None), new.excluded.version >= sets.c.version),
        ).returning(sets.c.owner)
        return connection.execute(entered).one_or_none() is not None

    def _owned(
        self, connection: Connection, owner: str, *, apart_from: Collection[UUID]
    ) -> dict[UUID, bool]:
        """The others that an owner has, and whether each is paused."""
        owned = select(definitions.c.id, definitions.c.paused).where(
            definitions.c.owner == owner, definitions.c.deleted_at.is_(None)
        )
        found = self._dialect.looked_up(
            owned, definitions, "task_definitions_owner_idx"
        )
        others = {row.id for row in connection.execute(found)} - set(apart_from)
        if not others:
            return {}
        # Locked: another owner may be about to take one that this one has paused.
        locked = self._dialect.looked_up(
            owned.where(self._dialect.among(definitions.c.id, others)),
            definitions,
            "task_definitions_id_key",
        ).with_for_update()
        return {row.id: row.paused for row in connection.execute(locked)}

    def _pause_owned(
        self, connection: Connection, gone: dict[UUID, bool], owner: str
    ) -> Sequence[TaskDefinition]:
        going = [each for each, paused in gone.items() if not paused]
        return self._pause(connection, going, rules.removal_note(owner))


def _kinds(of: TaskDefinition) -> Batch:
    """What each kind of instances of a definition has: its slot, and its overlap."""
    return [
        ("fired", rules.slot_of(of, fired=True), rules.overlap_of(of, fired=True)),
        ("by hand", rules.slot_of(of, fired=False), rules.overlap_of(of, fired=False)),
        *(
            (
                each.value,
                rules.slot_of(of, fired=False, backfilled=each),
                rules.overlap_of_backfilled(each),
            )
            for each in Overlap
        ),
    ]


class _How(NamedTuple):
    """The circumstances of a put.

    Attributes:
        now: When it is made.
        late: Whether others may see it only much later.
        owner: Who declares what is put.
    """

    now: datetime
    late: bool
    owner: str | None


def _moment(definition: TaskDefinition, how: _How) -> dict[str, object]:
    """The columns that say when a definition fires next, if it starts anew."""
    return {
        "next_fire_time": definition.next_fire_time,
        "late": how.late or _is_late(definition.next_fire_time, how.now),
        "completed_at": definition.completed_at,
    }


def _is_late(next_fire_time: datetime | None, now: datetime) -> bool:
    return next_fire_time is not None and next_fire_time <= now - LATE_AFTER
