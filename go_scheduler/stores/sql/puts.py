"""How definitions are put and sets of them declared, each batch in one transaction.

What is new is inserted without a read before it. What is there already is read first.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

from sqlalchemy import Connection, func, or_, select

from go_scheduler.models.values import changed, new_ids
from go_scheduler.stores import rules
from go_scheduler.stores.messages import Claimant, Firing, Put, Tombstone
from go_scheduler.stores.sql.database import LATE_AFTER, Lane, Overtaken
from go_scheduler.stores.sql.edits import Edit, SQLEdits
from go_scheduler.stores.sql.rows import ContentsRow, write_contents
from go_scheduler.stores.sql.runs import lease_of, start_terms, started_at_once
from go_scheduler.stores.sql.statement import Batch, Statement
from go_scheduler.stores.sql.tables import Dialect, definitions, sets

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Generator,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.rules import Declaration

LARGE_BATCH = 500
"""A put of more definitions may be seen late."""

# All nodes of an application declare the same, commonly at once.
_WAITS_TO_DECLARE = 4


# Each of the conditions is a look-up, by OFFSET 0 as for fires: for ON CONFLICT,
# CockroachDB would read the whole index where statistics say that it is short.
_IS_NEW = """
     AND NOT EXISTS (SELECT 1 FROM task_definitions@task_definitions_former_idx AS d
                      WHERE d.id = x.id AND d.deleted_at IS NOT NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_tombstones@task_tombstones_pkey AS t
                      WHERE t.id = x.id OFFSET 0)"""


def _insert(*, again: bool = False) -> str:
    """Inserts definitions that are not there, with their contents.

    Args:
        again: Whether an id may have been there before: each has its revision, and
            they have an owner. Else it is new in every respect, so that nothing has to
            be read first.
    """
    revision, owner = ("x.revision", "CAST(:owner AS text)") if again else ("1", "NULL")
    return f"""
WITH made AS (
  INSERT INTO task_definitions
         (key, id, shard, queue, priority, expire_after, waits, slot, overlap,
          next_fire_time, late, paused, note, paused_at, completed_at, revision, named,
          owner, created_at)
  SELECT x.key, x.id, x.shard, x.queue, x.priority, x.expire_after, x.waits, x.slot,
         x.overlap,
         x.next_fire_time,
         CAST(:is_late AS boolean)
         OR coalesce(x.next_fire_time <= now() - CAST(:late AS interval), false),
         x.paused, CASE WHEN x.paused THEN x.note END,
         CASE WHEN x.paused THEN now() END,
         CASE WHEN x.is_over THEN now() END, {revision}, x.named,
         {owner}, now()
    FROM batch AS x (key uuid, id uuid, shard bigint, queue text, priority bigint,
                     expire_after duration, waits boolean, next_fire_time timestamptz,
                     is_over boolean, paused boolean, note text, slot text,
                     overlap text, named boolean{", revision bigint" * again})
   WHERE NOT EXISTS (SELECT 1 FROM task_definitions@task_definitions_id_key AS d
                      WHERE d.id = x.id AND d.deleted_at IS NULL OFFSET 0){
        "" if again else _IS_NEW
    }
  RETURNING key, id, next_fire_time, queue, priority, expire_after, waits),
kept AS (
  INSERT INTO task_contents
         (key, name, metadata, metadata_search, trigger_kind, trigger_state, policies)
  SELECT c.key, c.name, c.metadata, as_jsonb(c.metadata), c.trigger_kind,
         c.trigger_state, c.policies
    FROM batch AS c (key uuid, name text, metadata text, trigger_kind text,
                     trigger_state text, policies text)
    JOIN made ON made.key = c.key
  RETURNING key)"""


# The ids are told if not all are new.
_TELL = """
SELECT now() AS now, ids_unless_all(made.id, :given) AS ids,
       notified(made, next_fire_time, d) AS hinted
"""
_INSERT_NEW = Statement(_insert() + _TELL, races=True)
_INSERT_AGAIN = Statement(_insert(again=True) + _TELL, races=True)
_INSERT_AND_START = Statement(
    f"""{_insert()},
started AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, fire_time,
          execute_at, due_at, created_at, claimed_by, attempt, runs, started_at,
          expires_at)
  SELECT f.id, d.key, f.shard, d.queue, d.priority, d.expire_after, d.waits, f.at, f.at,
         f.at, now(), CAST(:node AS uuid), 1, 1, greatest(now(), f.at),
         greatest(now(), f.at)
             + {lease_of("d")}
    FROM batch AS f (key uuid, id uuid, shard bigint, at timestamptz)
    JOIN made AS d ON d.key = f.key
  RETURNING definition_key, started_at, expires_at)
SELECT now() AS now, started.started_at, started.expires_at
  FROM started
""",
    races=True,
)
# By these a put changes nothing that is due.
_AS_IT_WAS = ("over", "kept")
_LARGEST = 2000
_SOON = timedelta(minutes=1)


class Inserted(NamedTuple):
    """A definition that was inserted, as it is stored."""

    definition: TaskDefinition
    key: UUID
    contents: ContentsRow


class _Batch:
    """Definitions to be inserted, with the keys and the texts that they are to have.

    Args:
        new: The definitions.
        dialect: The engine's own words.
        last: The last revisions of those that have been there; None: all are new.
        owner: Who declares them.
    """

    def __init__(
        self,
        new: Sequence[TaskDefinition],
        dialect: Dialect,
        last: Mapping[UUID, int] | None = None,
        owner: str | None = None,
    ) -> None:
        self._new = new
        self._owner = owner
        known = last or {}
        self._revisions = [known.get(each.id, 0) + 1 for each in new]
        self.keys = new_ids(len(new))
        self._contents = [write_contents(each) for each in new]
        self.given = {"given": len(new)}
        rows = [
            _row(each, key, dialect.shard_of(key))
            for each, key in zip(new, self.keys, strict=True)
        ]
        if last is not None:
            # Of those that are all new it is said in the statement.
            rows = [(*row, n) for row, n in zip(rows, self._revisions, strict=True)]
        self.batches: Mapping[str, Batch] = {
            "x": rows,
            "c": [
                (key, *of) for key, of in zip(self.keys, self._contents, strict=True)
            ],
        }

    def inserted(
        self, now: datetime, ids: Collection[UUID] | None
    ) -> Sequence[Inserted]:
        """Those that were inserted at this time: these, or all."""
        made = [
            rules.created(each, now, revision=revision, owner=self._owner)
            for each, revision in zip(self._new, self._revisions, strict=True)
        ]
        every = map(Inserted, made, self.keys, self._contents)
        if ids is None:
            return list(every)
        which = frozenset(ids)
        return [each for each in every if each.definition.id in which]


def _read_soon(inserted: Iterable[Inserted], now: datetime) -> Iterable[Inserted]:
    """Those that a loop reads soon, or whenever somebody asks for them."""
    soon = now + _SOON
    for each in inserted:
        fires_at = each.definition.next_fire_time
        if fires_at is None or fires_at <= soon:
            yield each


def _row(new: TaskDefinition, key: UUID, shard: int) -> tuple[object, ...]:
    return (
        key,
        new.id,
        shard,
        new.queue,
        new.priority,
        new.expire_after,
        new.trigger.waits,
        new.next_fire_time,
        rules.is_over_at_once(new),
        new.paused,
        new.note,
        rules.slot_of(new, fired=False),
        rules.overlap_of(new, fired=False),
        new.named,
    )


class SQLPuts(SQLEdits):
    """Puts definitions, and declares sets of them."""

    def put_definitions(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        firings: Sequence[Firing] = (),
        claimant: Claimant | None = None,
    ) -> Put:
        """Insert each definition, or replace the one with its id."""
        if not definitions:
            return Put(definitions=[])
        rules.check_each_once(definitions)
        self._classes.seen(definitions)
        joined = self._dialect.joined
        is_given = any(each.revision is not None for each in definitions)
        if len(definitions) == 1 and not (is_given or joined):
            if claimant is not None and firings:
                put = self._insert_and_start(firings[0], claimant)
            else:
                put = self._insert_one(definitions[0])
            if put is not None:
                return put
        # Writing a large batch takes so long that its first rows may lie below the
        # bound of every scan when they become visible, and so does a user's commit.
        late = joined or len(definitions) > LARGE_BATCH
        # What was tried alone before is not new. Whoever is told of a conflict may
        # still commit a transaction of its own: nothing is put before.
        tries = not is_given if joined else len(definitions) > 1
        stored, inserted = self._database.transact(
            lambda each: self._put(each, definitions, late=late, tries=tries),
            # A put of a revision that was done, and is repeated, conflicts with itself.
            repeatable=not is_given,
        )
        # Not before it has been committed.
        self._remember(inserted)
        for each in stored:
            self._limited.pop(each.id, None)
        return Put(definitions=stored)

    def _put(
        self,
        connection: Connection,
        definitions: Sequence[TaskDefinition],
        *,
        late: bool,
        tries: bool,
    ) -> tuple[Sequence[TaskDefinition], Sequence[Inserted]]:
        """Put definitions in a transaction; also say what is read soon of the new.

        Args:
            connection: In the transaction.
            definitions: What to put.
            late: Whether others may see them only much later.
            tries: Whether to insert first those that may be new.
        """
        put: dict[UUID, TaskDefinition] = {}
        soon: list[Inserted] = []
        for made, now in (
            self._insert(connection, definitions, late=late) if tries else ()
        ):
            put.update([(each.definition.id, each.definition) for each in made])
            soon += _read_soon(made, now)
        if len(put) < len(definitions):
            others = [each for each in definitions if each.id not in put]
            known = self._edits(connection, [each.id for each in others])
            stored = self._put_over(connection, known, others, late=late)
            put.update((each.id, each) for each in stored)
        return [put[each.id] for each in definitions], soon

    def _insert(
        self, connection: Connection, given: Sequence[TaskDefinition], *, late: bool
    ) -> Iterator[tuple[Sequence[Inserted], datetime]]:
        """Insert those whose ids neither are nor were stored, nor are remembered.

        Nothing is inserted that is not asked for.

        Yields:
            What was inserted by one statement, and when.
        """
        soon = self._dialect.hint_within(connection, late=late)
        terms = {"is_late": late, "late": LATE_AFTER, "hint_within": soon}
        new = [each for each in given if each.revision is None]
        # One order for all nodes, so that none waits for another in a circle.
        new.sort(key=attrgetter("id.int"))
        with closing(self._batches(new)) as batches:
            for batch in batches:
                [row] = self._statements.execute(
                    connection, _INSERT_NEW, {**terms, **batch.given}, batch.batches
                )
                yield batch.inserted(row.now, row.ids), row.now

    def _batches(self, new: Sequence[TaskDefinition]) -> Generator[_Batch, None, None]:
        """So many by one statement that it is not noticed what each of them costs.

        Others are written down while the database is busy with one, in the context of
        the caller: triggers of the user's may look into it.
        """
        parts = [
            new[first : first + _LARGEST] for first in range(0, len(new), _LARGEST)
        ]
        batch = partial(_Batch, dialect=self._dialect)
        batches: Iterator[_Batch] = map(batch, parts)
        ahead = ThreadPoolExecutor(1, "go-scheduler-batches")
        try:
            # At the end of a program no thread can be started any more.
            with suppress(RuntimeError):
                if len(parts) > 1:
                    batches = ahead.map(partial(copy_context().run, batch), parts)
            yield from batches
        finally:
            ahead.shutdown(cancel_futures=True)

    def _insert_one(self, given: TaskDefinition) -> Put | None:
        """Insert one definition if its id is new: no transaction is begun for it."""
        batch = _Batch([given], self._dialect)
        terms = {"is_late": False, "late": LATE_AFTER, **batch.given}
        [row] = self._statements.run(Lane.NEW, _INSERT_NEW, terms, batch.batches)
        inserted = batch.inserted(row.now, row.ids)
        self._remember(_read_soon(inserted, row.now))
        if not inserted:
            return None
        return Put(definitions=[each.definition for each in inserted])

    def _insert_and_start(self, firing: Firing, claimant: Claimant) -> Put | None:
        """Insert one that fires at once and start its instance; None: it is not new."""
        [fire_time] = firing.fire_times
        new = changed(firing.definition, next_fire_time=firing.next_fire_time)
        batch = _Batch([new], self._dialect)
        id = uuid4()
        fires = [(batch.keys[0], id, self._dialect.shard_of(id), fire_time)]
        rows = self._statements.run(
            Lane.NEW,
            _INSERT_AND_START,
            {"is_late": False, "late": LATE_AFTER, **start_terms(claimant)},
            {**batch.batches, "f": fires},
            # One that was done, and is repeated, finds an id that is not new.
            repeatable=False,
        )
        if not rows:
            return None
        [row] = rows
        [inserted] = batch.inserted(row.now, None)
        if inserted.definition.completed_at is None:
            self._remember([inserted])
        times = (fire_time, fire_time)
        started = started_at_once(id, inserted.definition, times, claimant, row)
        before = changed(
            inserted.definition, next_fire_time=fire_time, completed_at=None
        )
        return Put(definitions=[before], started=[started])

    def _remember(self, inserted: Iterable[Inserted]) -> None:
        """Let the loops find what they read soon."""
        for each in inserted:
            self._reader.remember(each.key, each.definition, each.contents)

    def _put_over(
        self,
        connection: Connection,
        edits: Mapping[UUID, Edit],
        given: Sequence[TaskDefinition],
        *,
        late: bool,
        owner: str | None = None,
    ) -> Sequence[TaskDefinition]:
        """Insert or replace definitions, of which these have been read.

        Args:
            connection: In a transaction.
            edits: Of those that are there.
            given: The definitions, each once.
            late: Whether others may see them only much later.
            owner: Who declares them; None: nobody, they stay whose they are.

        Raises:
            Overtaken: One is not as it was read, or is there by now.
        """
        now = self._dialect.now(connection)
        old = {id: each.old for id, each in edits.items()}
        named = [each.id for each in given if each.named and each.id not in old]
        remembered = self._remembered(connection, named)
        actions = {
            each.id: rules.put_action(each, old.get(each.id), remembered.get(each.id))
            for each in given
        }
        # One order for all nodes, so that none waits for another in a circle.
        ordered = sorted(given, key=lambda each: each.id)
        new = [each for each in ordered if actions[each.id] == "new"]
        put = self._insert_again(connection, new, remembered, late=late, owner=owner)
        for each in ordered:
            match actions[each.id]:
                case "over":
                    put[each.id] = rules.ended_before(each, remembered[each.id])
                case "kept":
                    put[each.id] = edits[each.id].keep(each, owner)
                case "edited":
                    put[each.id] = edits[each.id].edit(each, owner)
                case "rescheduled":
                    edit = edits[each.id]
                    put[each.id] = edit.reschedule(each, owner, now, late=late)
        written = (id for id, action in actions.items() if action not in _AS_IT_WAS)
        times = (put[id].next_fire_time for id in written)
        self._dialect.hint(connection, times, now, late=late)
        return [put[each.id] for each in given]

    def _insert_again(
        self,
        connection: Connection,
        given: Sequence[TaskDefinition],
        remembered: Mapping[UUID, Tombstone],
        *,
        late: bool,
        owner: str | None,
    ) -> dict[UUID, TaskDefinition]:
        if not given:
            return {}
        ids = [each.id for each in given]
        last = self._last_revisions(connection, ids)
        again = [remembered[each] for each in ids if each in remembered]
        self._forget(connection, [each.id for each in again])
        last |= {each.id: each.revision for each in again}
        batch = _Batch(given, self._dialect, last, owner)
        terms = {"is_late": late, "late": LATE_AFTER, "owner": owner}
        # Others hear of it with what is replaced.
        terms |= {"hint_within": None, **batch.given}
        [row] = self._statements.execute(
            connection, _INSERT_AGAIN, terms, batch.batches
        )
        if row.ids is not None:
            raise Overtaken
        made = [each.definition for each in batch.inserted(row.now, None)]
        return {each.id: each for each in made}

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
        edits = self._edits(connection, ids)
        stored = {id: each.old for id, each in edits.items()}
        rules.check_owners(declaration, stored)
        put = self._put_over(
            connection, edits, declaration.definitions, late=late, owner=owner
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
