"""Changes of definitions and their open instances, each in one transaction.

Whoever changes a definition changes its row first, if it still is as it was read: from
then on no fire of it wins until the transaction has ended. It also locks the row as if
to delete it, which an UPDATE alone does not: whoever adds instances to it has to wait.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from go_scheduler.errors import GoSchedulerError
from go_scheduler.models import Outcome, Skipped, TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.stores import rules
from go_scheduler.stores.messages import Tombstone
from go_scheduler.stores.sql.database import IS_REPEATED, LATE_AFTER, Overtaken
from go_scheduler.stores.sql.rows import (
    EARLIEST,
    LATEST,
    read_contents,
    read_definition,
    read_time,
    write_definition,
    write_policies,
)
from go_scheduler.stores.sql.runs import COMING, NOT_ELSEWHERE, kept_if
from go_scheduler.stores.sql.statement import SQLPart, Statement, own_or
from go_scheduler.stores.sql.tables import contents, definitions, instances, runs
from go_scheduler.triggers.base import UnknownTrigger, load_trigger, utc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set
    from datetime import datetime

    from go_scheduler.stores.sql.statement import Batch, Execute, Statements
    from go_scheduler.stores.sql.tables import Dialect

_REMEMBERED = Statement("""
SELECT t.id, t.trigger_kind, t.trigger_state, t.revision, t.completed_at
  FROM batch AS x (id uuid)
  JOIN task_tombstones@task_tombstones_pkey AS t ON t.id = x.id
""")
_FORGET = Statement("""
DELETE FROM task_tombstones@task_tombstones_pkey AS t
 WHERE t.id IN (SELECT x.id FROM batch AS x (id uuid))
RETURNING t.id
""")


def _tombstone(row: Any) -> Tombstone | None:
    """The tombstone of a row; None if it cannot be read."""
    try:
        return Tombstone(
            id=row.id,
            trigger=load_trigger(row.trigger_kind, json.loads(row.trigger_state)),
            revision=row.revision,
            completed_at=utc(row.completed_at, name="completed_at"),
        )
    except (GoSchedulerError, ValueError):
        return None


_FREE_SLOTS = Statement("""
WITH free AS MATERIALIZED (
  SELECT s.name, s.instance_id
    FROM batch AS n (name text) JOIN task_slots@task_slots_pkey AS s ON s.name = n.name
   WHERE NOT EXISTS (SELECT 1 FROM task_instances@task_instances_pkey AS i
                      WHERE i.id = s.instance_id AND i.completed_at IS NULL))
DELETE FROM task_slots@task_slots_pkey AS s USING free AS f
 WHERE s.name = f.name AND s.instance_id = f.instance_id
RETURNING s.name
""")


def free_slots(execute: Execute, names: Iterable[str | None]) -> None:
    """Take back slots of these names whose instance has ended, or is gone."""
    if batch := [(name,) for name in sorted({*filter(None, names)})]:
        execute(_FREE_SLOTS, {}, {"n": batch})


def batch_of(ids: Iterable[object]) -> Batch:
    """A batch of ids; a row that was written by other means may have none."""
    return [(id,) for id in ids if isinstance(id, UUID)]


# Instances of some definitions that have not ended. Whoever changes several columns of
# them locks them first, so that nothing is claimed, starts or ends in between.
_THEIRS = """t.definition_key IN (SELECT k.key FROM batch AS k (key uuid))
   AND t.completed_at IS NULL AND t.outcome IS NULL"""
# Those of a fire time that never ran. One that was made to run again has failed before.
_UNUSED = """t.fire_time IS NOT NULL AND t.backfilled IS NULL
   AND t.started_at IS NULL AND t.runs = 0 AND t.reopened_at IS NULL"""
_ANEW = "CASE WHEN NOT t.frozen THEN greatest(t.due_at, now()) END"


def _locked(where: str = "") -> Statement:
    # One order for all nodes, so that none waits for another in a circle.
    return Statement(f"""
SELECT t.id FROM task_instances@task_instances_open_idx AS t
 WHERE {_THEIRS}{where}
 ORDER BY t.id FOR UPDATE OF t
""")


def _changed(values: str, where: str = "", source: str = "") -> Statement:
    return Statement(f"""
UPDATE task_instances@task_instances_open_idx AS t
   SET {values}{source}
 WHERE {_THEIRS}{where}
RETURNING t.id, t.definition_key, t.slot
""")


def _removed(after: str) -> Statement:
    """Removes instances that never ran, and answers their fire times."""
    return Statement(f"""
DELETE FROM task_instances@task_instances_open_idx AS t
 WHERE {_THEIRS}
   AND {_UNUSED}
   AND {COMING}{after}
RETURNING t.fire_time
""")


def _let_go(where: str) -> Statement:
    """Lets instances go of their slots."""
    return Statement(f"""
DELETE FROM task_slots@task_slots_pkey AS s
 USING task_instances@task_instances_open_idx AS t
 WHERE {_THEIRS}
   AND {where} AND s.name = t.slot AND s.instance_id = t.id
RETURNING s.name
""")


_LOCK_OPEN = _locked()
_LOCK_UNUSED = _locked(f"\n   AND {_UNUSED}\n   AND {COMING}")
_REMOVE_UNUSED = _removed("")
# The latest fire time to come of what has begun or ended: what ended is not open, but
# says as well that it was its turn.
_LAST_BEGUN = f"""
         SELECT max(b.fire_time) FROM task_instances@task_instances_fire_key AS b
          WHERE b.definition_key IN (SELECT k.key FROM batch AS k (key uuid))
            AND {COMING.replace("t.", "b.")}
            AND NOT (b.completed_at IS NULL AND {_UNUSED.replace("t.", "b.")})"""
_TAKE_BACK = _removed(f"\n   AND t.fire_time > coalesce(({_LAST_BEGUN}), now())")
_NOTE_BEGUN = Statement(f"""
UPDATE task_definitions@task_definitions_pkey AS d
   SET fired_until = coalesce(({_LAST_BEGUN}), d.fired_until)
 WHERE d.key IN (SELECT k.key FROM batch AS k (key uuid))
RETURNING d.key AS d_key
""")
_SKIP_UNUSED = _changed(
    f"""outcome = 'skipped', completed_at = now(), skipped_first = t.fire_time,
       skipped_last = t.fire_time, skipped_count = 1,
       skipped_reason = CAST(:reason AS text), fire_time = NULL, claimed_by = NULL,
       {NOT_ELSEWHERE},
       given_back = NULL, parked = false, claimable_at = NULL""",
    f"""
   AND {_UNUSED}
   AND t.fire_time BETWEEN CAST(:earliest AS timestamptz) AND now()""",
)
_STARTED = "t.started_at IS NOT NULL"
# None of them can be claimed, and what has not started is not claimed any more.
_FREEZE = _changed(
    f"""frozen = true, claimable_at = NULL,
       claimed_by = CASE WHEN {_STARTED}
                    THEN t.claimed_by END,
       expires_at = CASE WHEN {_STARTED} THEN t.expires_at END,
       given_back = CASE WHEN {_STARTED} OR t.claimed_by IS NULL THEN t.given_back END,
       {kept_if(f"{_STARTED} OR t.claimed_by IS NULL")}"""
)
# A claim that lapsed long ago would lie below the bound of every scan.
_THAW = _changed(
    """frozen = false,
       expires_at = CASE WHEN t.expires_at < now() THEN now() ELSE t.expires_at END,
       claimable_at = CASE WHEN t.claimed_by IS NULL AND NOT t.parked
                      THEN greatest(t.due_at, now()) ELSE t.claimable_at END"""
)
# An earlier time would lie below the bound of who scans the other place.
_FOLLOW = _changed(
    f"""queue = {own_or("t", "queue", "CAST(:queue AS text)")},
       priority = {own_or("t", "priority", "CAST(:priority AS bigint)")},
       expire_after = {own_or("t", "expire_after", "CAST(:expire_after AS bigint)")},
       waits = CAST(:waits AS boolean)
               AND t.fire_time IS NOT NULL AND t.backfilled IS NULL,
       claimable_at = CASE WHEN CAST(:moves AS boolean) AND t.claimable_at < now()
                      THEN now() ELSE t.claimable_at END"""
)
_FREE_UNSTARTED = _changed(
    f"""claimed_by = NULL, {NOT_ELSEWHERE},
       given_back = NULL, expires_at = NULL, claimable_at = {_ANEW}""",
    """ AND t.claimed_by IS NOT NULL AND t.started_at IS NULL
   AND own(t.overrides, queue) IS NULL""",
)
_LET_GO = _let_go("t.started_at IS NULL")
_LET_GO_UNUSED = _let_go(_UNUSED)
# But for those that run in a slot. What was parked goes on.
_EXCLUDE = _changed(
    f"""slot = {own_or("t", "slot", "x.slot")}, overlap = x.overlap, parked = false,
       claimable_at = CASE WHEN t.parked THEN {_ANEW} ELSE t.claimable_at END""",
    """
   AND x.kind = CASE WHEN t.backfilled IS NOT NULL THEN t.backfilled
                     WHEN t.fire_time IS NULL THEN 'by hand' ELSE 'fired' END
   AND NOT EXISTS (SELECT 1 FROM task_slots@task_slots_pkey AS s
                    WHERE s.name = t.slot AND s.instance_id = t.id)""",
    "\n  FROM batch AS x (kind text, slot text, overlap text)",
)
_CANCEL_RUNNING = _changed(
    "outcome = 'cancelled', completed_at = now(), claimable_at = NULL",
    " AND t.started_at IS NOT NULL",
)
_REMOVE_OTHERS = Statement(f"""
DELETE FROM task_instances@task_instances_open_idx AS t
 WHERE {_THEIRS} AND t.started_at IS NULL
RETURNING t.id, t.attempt, t.slot
""")
_DELETE = Statement("""
UPDATE task_definitions@task_definitions_pkey AS d
   SET deleted_at = now(), next_fire_time = NULL, completed_at = NULL
 WHERE d.key IN (SELECT l.key FROM task_definitions@task_definitions_id_key AS l
                  WHERE l.id IN (SELECT x.id FROM batch AS x (id uuid))
                    AND l.deleted_at IS NULL FOR UPDATE)
RETURNING d.key AS d_key, d.id AS d_id
""")
# It may be seen only when the time has passed, if the transaction is long.
_FIRE_ANEW = Statement("""
UPDATE task_definitions@task_definitions_pkey AS d
   SET next_fire_time = CAST(:at AS timestamptz), completed_at = NULL, late = true
 WHERE d.key = CAST(:key AS uuid)
RETURNING d.next_fire_time, d.completed_at
""")


# Columns that follow the definition, for claims and starts without a join.
_FOLLOWING = ("queue", "priority", "expire_after", "waits")
_EXCLUDING = ("slot", "overlap", "waits")


class Edit:
    """A change of one definition and its open instances, in a transaction.

    Args:
        connection: In that transaction.
        row: The definition's, with its contents, as it was read.
        statements: Executes statements.
        dialect: The engine's own words.

    Attributes:
        old: The definition, as it was read.
    """

    def __init__(
        self,
        connection: Connection,
        row: Row[Any],
        statements: Statements,
        dialect: Dialect,
    ) -> None:
        self.old = definition_of(row)
        self._connection = connection
        self._row = row
        self._dialect = dialect
        self._execute: Execute = partial(statements.execute, connection)

    def _write(
        self, values: Mapping[str, object], *, unless_fired: bool = False
    ) -> Row[Any]:
        """Update the definition's row, unless somebody else has changed it since.

        From here on, no fire of this definition wins until the transaction has ended.

        Args:
            values: By column.
            unless_fired: Whether a fire since then is a change as well.

        Returns:
            When it fires next by now, and when it was completed.

        Raises:
            Overtaken: Somebody has.
        """
        row = self._row
        keys = select(definitions.c.key).correlate(None)
        locked = keys.where(definitions.c.key == row.key).with_for_update()
        statement = (
            update(definitions)
            .where(
                definitions.c.key == locked.scalar_subquery(),
                definitions.c.revision == row.revision,
                # Which may change without the revision.
                definitions.c.owner.is_not_distinct_from(row.owner),
                definitions.c.note.is_not_distinct_from(row.note),
                definitions.c.deleted_at.is_(None),
            )
            .values(values)
            .returning(definitions.c.next_fire_time, definitions.c.completed_at)
        )
        if unless_fired:
            unmoved = definitions.c.next_fire_time == row.next_fire_time
            statement = statement.where(unmoved)
        written = self._connection.execute(statement).one_or_none()
        if written is None:
            raise Overtaken
        return written

    def _write_contents(self, values: Mapping[str, object]) -> None:
        of = contents.c.key == self._row.key
        self._connection.execute(update(contents).where(of).values(values))

    def _change(
        self, statement: Statement, kinds: Batch | None = None, **terms: object
    ) -> Sequence[Any]:
        """Change its open instances."""
        batches: dict[str, Batch] = {"k": [(self._row.key,)]}
        if kinds is not None:
            batches["x"] = kinds
        return self._execute(statement, terms, batches)

    def keep(self, new: TaskDefinition, owner: str | None) -> TaskDefinition:
        """Leave it as it is, but for whose it is, and that its id was passed."""
        kept = rules.kept(self.old, new, owner=owner)
        whose = {"named": kept.named, "owner": kept.owner}
        if whose != {"named": self.old.named, "owner": self.old.owner}:
            self._write(whose)
        return kept

    def edit(self, new: TaskDefinition, owner: str | None) -> TaskDefinition:
        """Replace all but its trigger, and with it its fire times."""
        edited = rules.edited(self.old, new, owner=owner)
        written = self._replace(edited)
        if edited.jitter != self.old.jitter:
            written = self._take_back(written)
        return replace(
            edited,
            next_fire_time=written.next_fire_time,
            completed_at=written.completed_at,
        )

    def reschedule(
        self, new: TaskDefinition, owner: str | None, now: datetime, *, late: bool
    ) -> TaskDefinition:
        """Replace all of it, also its trigger: it starts anew.

        What is to come by the former trigger is removed, and what has passed skipped.
        """
        anew = rules.rescheduled(self.old, new, now, owner=owner)
        skipped = rules.unfired(self.old, now)
        at = anew.next_fire_time
        moment: dict[str, object] = {
            "next_fire_time": at,
            "late": late or (at is not None and at <= now - LATE_AFTER),
            "completed_at": anew.completed_at,
        }
        if anew.overdue:
            # It goes back on purpose.
            moment["fired_until"] = None
        self._replace(anew, moment, unless_fired=skipped is not None)
        self._change(_REMOVE_UNUSED, latest=LATEST)
        self._change(_SKIP_UNUSED, earliest=EARLIEST, reason=rules.EDITED)
        # It may be gone when the other trigger fires.
        self._change(_NOTE_BEGUN, latest=LATEST)
        free_slots(self._execute, [self._row.slot])
        if skipped is not None:
            self._record(skipped, now)
        return anew

    def _replace(
        self,
        new: TaskDefinition,
        moment: Mapping[str, object] = {},
        *,
        unless_fired: bool = False,
    ) -> Row[Any]:
        """Write another definition in its place, and have its instances follow."""
        columns = write_definition(new)
        written = self._write({**columns, **moment}, unless_fired=unless_fired)
        self._write_contents(self._dialect.write_contents(new))
        row = self._row
        changed = {name for name in columns if columns[name] != getattr(row, name)}
        follows = changed.intersection(_FOLLOWING)
        excludes = changed.intersection(_EXCLUDING)
        # Instances that nothing changes for are not locked: they go on meanwhile.
        if follows or excludes:
            self._change(_LOCK_OPEN)
        if follows:
            moves = bool(follows & {"queue", "priority"})
            terms: dict[str, Any] = {name: columns[name] for name in _FOLLOWING}
            self._change(_FOLLOW, **terms, moves=moves)
        if "queue" in follows:
            self._change(_FREE_UNSTARTED)
        if excludes:
            self._change(_LET_GO)
            self._change(_EXCLUDE, _kinds(new))
        return written

    def _record(self, skipped: Skipped, now: datetime) -> None:
        """Record what had passed by the former trigger and has no instance."""
        id = uuid4()
        record = insert(instances).values(
            id=id,
            definition_key=self._row.key,
            shard=self._dialect.shard_of(id),
            queue=self._row.queue,
            priority=self._row.priority,
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
        self._connection.execute(record)

    def pause(self, note: str | None) -> TaskDefinition:
        """Pause it, or note why it is paused."""
        if self.old.paused:
            self._write({"note": note})
            return replace(self.old, note=note)
        values: dict[str, Any] = {
            "paused": True,
            "note": note,
            "paused_at": self._dialect.now(self._connection),
            "revision": rules.next_revision(self.old),
        }
        written = self._write(values)
        self._change(_LOCK_OPEN)
        self._change(_FREEZE)
        written = self._take_back(written)
        if self._row.slot is not None:
            self._change(_LET_GO_UNUSED)
        return replace(
            self.old,
            **values,
            next_fire_time=read_time(written.next_fire_time),
            completed_at=read_time(written.completed_at),
        )

    def _take_back(self, written: Any) -> Any:
        """Let it fire anew what is to come and has not begun.

        That is what comes after the last that has, so that nothing is fired twice.

        Args:
            written: What ``_write`` answered.

        Returns:
            The same, as it is by then.
        """
        self._change(_LOCK_UNUSED, latest=LATEST)
        removed = self._change(_TAKE_BACK, latest=LATEST)
        free_slots(self._execute, [self._row.slot])
        if not removed:
            return written
        times = [written.next_fire_time, *(each.fire_time for each in removed)]
        at = min(filter(None, map(read_time, times)))
        [anew] = self._execute(_FIRE_ANEW, {"key": self._row.key, "at": at})
        return anew

    def resume(self) -> TaskDefinition:
        """End its pause, if it is paused."""
        if not self.old.paused:
            return self.old
        now = self._dialect.now(self._connection)
        new = rules.resumed(self.old, now)
        names = ("paused", "note", "paused_at", "revision")
        # Fire times may have passed for as long as it was paused.
        self._write({**{name: getattr(new, name) for name in names}, "late": True})
        self._change(_THAW)
        self._dialect.hint(self._connection, [now], now)
        if isinstance(self.old.trigger, UnknownTrigger):
            # What cannot be read is not written anew.
            return replace(new, last_pause=self.old.last_pause)
        self._write_contents({"policies": write_policies(new)})
        return new


class SQLEdits(SQLPart):
    """Changes of definitions."""

    def _execute(self, connection: Connection) -> Execute:
        return partial(self._statements.execute, connection)

    def _check(self, connection: Connection) -> None:
        """Refuse a transaction of the user's in which nothing may be edited."""
        if self._dialect.joined:
            self._dialect.check_edits(connection)

    def _edits(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Mapping[UUID, Edit]:
        """Edits of those definitions that there are, by their ids, in their order."""
        self._check(connection)
        query = live_among(self._dialect, ids).order_by(definitions.c.id)
        if IS_REPEATED in connection.get_execution_options():
            # What fires often could fire again before each try has written it.
            query = query.with_for_update(key_share=True, of=definitions)
        return {
            row.id: Edit(connection, row, self._statements, self._dialect)
            for row in connection.execute(query).all()
        }

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids."""
        return list(self._list(lambda each: self._remembered(each, ids)).values())

    def _remembered(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Mapping[UUID, Tombstone]:
        """What is remembered of these ids."""
        if not ids:
            return {}
        rows = self._execute(connection)(_REMEMBERED, {}, {"x": batch_of({*ids})})
        found = map(_tombstone, rows)
        return {each.id: each for each in found if each is not None}

    def _forget(self, connection: Connection, ids: Collection[UUID]) -> None:
        if ids:
            self._execute(connection)(_FORGET, {}, {"x": batch_of(ids)})

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        return self._database.transact(lambda each: self._pause(each, ids, note))

    def _pause(
        self, connection: Connection, ids: Collection[UUID], note: str | None
    ) -> Sequence[TaskDefinition]:
        edits = self._edits(connection, ids)
        return [each.pause(note) for each in edits.values()]

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        return self._database.transact(lambda each: self._resume(each, ids))

    def _resume(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Sequence[TaskDefinition]:
        return [each.resume() for each in self._edits(connection, ids).values()]

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running.

        Their rows stay until their history is gone.
        """
        return self._database.transact(
            lambda each: self._delete_ids(each, ids),
            # A delete that was done, and is repeated, finds nothing to delete.
            repeatable=False,
        )

    def _delete_ids(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Mapping[UUID, Set[UUID]]:
        self._check(connection)
        execute = self._execute(connection)
        rows = execute(_DELETE, {}, {"x": batch_of(ids)})
        deleted = {row.d_key: row.d_id for row in rows}
        ran: dict[UUID, set[UUID]] = {id: set() for id in deleted.values()}
        if deleted:
            theirs = {"k": batch_of(deleted)}
            execute(_LOCK_OPEN, {}, theirs)
            cancelled = execute(_CANCEL_RUNNING, {}, theirs)
            for row in cancelled:
                if isinstance(row.id, UUID):
                    ran[deleted[row.definition_key]].add(row.id)
            gone = execute(_REMOVE_OTHERS, {}, theirs)
            failed = [
                row.id for row in gone if row.attempt and isinstance(row.id, UUID)
            ]
            if failed:
                # Apart: whatever statistics say, the table is not read for each.
                which = self._dialect.among(runs.c.instance_id, failed)
                connection.execute(delete(runs).where(which))
            free_slots(execute, (row.slot for row in (*cancelled, *gone)))
        # A live one may have a tombstone too: of a former life, if this process could
        # not read it.
        self._forget(connection, ids)
        return ran


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


LIVE = (
    select(definitions, *(each for each in contents.c if each.name != "key"))
    .outerjoin(contents, contents.c.key == definitions.c.key)
    .where(definitions.c.deleted_at.is_(None))
)


def live_among(dialect: Dialect, ids: Collection[UUID]) -> Select[Any]:
    """The rows of those definitions that there are, with their contents."""
    query = LIVE.where(dialect.among(definitions.c.id, ids))
    query = dialect.looked_up(query, definitions, "task_definitions_id_key")
    return dialect.looked_up(query, contents, "task_contents_pkey")


def definition_of(row: Row[Any]) -> TaskDefinition:
    """The definition of a row that has its contents as well."""
    has_contents = row.trigger_kind is not None
    return read_definition(row, read_contents(row if has_contents else None))
