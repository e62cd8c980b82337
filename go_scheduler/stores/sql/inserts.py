"""How definitions and instances are inserted, each batch by one statement.

What is new is inserted without a read before it. A definition that is there already is
left to ``puts``, which reads it first.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from datetime import timedelta
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models.values import changed, new_ids
from go_scheduler.stores import rules
from go_scheduler.stores.base import ByHandStore
from go_scheduler.stores.messages import Put
from go_scheduler.stores.sql.additions import (
    LIVE,
    LIVE_AND_LOCKED,
    count_waiting,
    existing,
    find,
    live_in,
    lock_live,
)
from go_scheduler.stores.sql.database import LATE_AFTER, Lane, Overtaken
from go_scheduler.stores.sql.puts import LARGE_BATCH, SQLPuts
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    DefinitionRow,
    read_instance,
    write_contents,
    write_overrides,
)
from go_scheduler.stores.sql.runs import lease_of, start_terms, started_at_once
from go_scheduler.stores.sql.statement import Statement, own_or

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Generator,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from datetime import datetime

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Addition, Claimant, Firing
    from go_scheduler.stores.sql.database import Classes, Database
    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sql.rows import ContentsRow
    from go_scheduler.stores.sql.statement import Batch, Statements
    from go_scheduler.stores.sql.tables import Dialect

_LEASE = lease_of("d")

# Ids that are new in every respect, so that nothing has to be read first. Each of the
# conditions is a look-up, by OFFSET 0 as for fires: for ON CONFLICT, CockroachDB would
# read the whole index where statistics say that it is short.
_INSERT = """
WITH made AS (
  INSERT INTO task_definitions
         (key, id, shard, queue, priority, expire_after, waits, slot, overlap,
          next_fire_time, late, paused, note, paused_at, completed_at, revision, named,
          created_at)
  SELECT x.key, x.id, x.shard, x.queue, x.priority, x.expire_after, x.waits, x.slot,
         x.overlap,
         x.next_fire_time,
         CAST(:is_late AS boolean)
         OR coalesce(x.next_fire_time <= now() - CAST(:late AS interval), false),
         x.paused, CASE WHEN x.paused THEN x.note END,
         CASE WHEN x.paused THEN now() END,
         CASE WHEN x.is_over THEN now() END, 1, x.named,
         now()
    FROM batch AS x (key uuid, id uuid, shard bigint, queue text, priority bigint,
                     expire_after duration, waits boolean, next_fire_time timestamptz,
                     is_over boolean, paused boolean, note text, slot text,
                     overlap word, named boolean)
   WHERE NOT EXISTS (SELECT 1 FROM task_definitions@task_definitions_id_key AS d
                      WHERE d.id = x.id AND d.deleted_at IS NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_definitions@task_definitions_former_idx AS d
                      WHERE d.id = x.id AND d.deleted_at IS NOT NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_tombstones@task_tombstones_pkey AS t
                      WHERE t.id = x.id OFFSET 0)
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
_INSERT_NEW = Statement(
    f"""{_INSERT}
SELECT now() AS now, ids_unless_all(made.id, :given) AS ids,
       notified(made, next_fire_time, d) AS hinted
""",
    ("now", "ids", "hinted"),
    races=True,
)
_INSERT_AND_START = Statement(
    f"""{_INSERT},
started AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, fire_time,
          execute_at, due_at, created_at, claimed_by, attempt, runs, started_at,
          expires_at)
  SELECT f.id, d.key, f.shard, d.queue, d.priority, d.expire_after, d.waits, f.at, f.at,
         f.at, now(), CAST(:node AS uuid), 1, 1, greatest(now(), f.at),
         greatest(now(), f.at)
             + {_LEASE}
    FROM batch AS f (key uuid, id uuid, shard bigint, at timestamptz)
    JOIN made AS d ON d.key = f.key
  RETURNING definition_key, started_at, expires_at)
SELECT now() AS now, started.started_at, started.expires_at
  FROM started
""",
    ("now", "started_at", "expires_at"),
    races=True,
)
_LARGEST = 2000
_SOON = timedelta(minutes=1)

_OF_DEFINITION = (*DEFINITION_COLUMNS, "slot", "overlap")
_WIDTH = len(DEFINITION_COLUMNS)
_MOST_KNOWN = 10_000
# Those that add to a limited definition do it one after the other.
_WAITS_IN_TURN = 4


def _own(column: str) -> str:
    return own_or("x", column, f"d.{column}")


# Whoever edits, pauses or deletes the definition waits for the end of this, and then
# finds what was added; no fire and no other addition does. What is there already is a
# look-up, by OFFSET 0 as for fires. The ids are told if not all are made.
@lru_cache(maxsize=8)
def add(*, starts: bool, limited: bool = False, joined: bool = False) -> Statement:
    """Makes instances of one definition.

    Args:
        starts: Whether those that are due are started.
        limited: Whether few may wait: those with a reason are skipped.
        joined: Whether a conflict is to leave a transaction of the user's as it is.
    """
    mine, unless, columns, values, join, answer = "", "", "", "", "", ""
    reason = ""
    answers: tuple[str, ...] = ()
    if starts:
        mine = """
mine AS MATERIALIZED (
  SELECT NOT d.paused AND d.slot IS NULL AND d.queue = ANY(CAST(:queues AS text[]))
         AND (CAST(:names AS text[]) IS NULL
              OR EXISTS (SELECT 1 FROM task_contents@task_contents_pkey AS c
                          WHERE c.key = d.key
                            AND c.name = ANY(CAST(:names AS text[])))) AS starts
    FROM d),"""
        is_started = "mine.starts AND x.at <= now()"
        unless = f" AND NOT ({is_started})"
        columns = """,
          claimed_by, attempt, runs, started_at, expires_at"""
        values = f""",
         CASE WHEN {is_started} THEN CAST(:node AS uuid) END,
         CASE WHEN {is_started} THEN 1 ELSE 0 END,
         CASE WHEN {is_started} THEN 1 ELSE 0 END,
         CASE WHEN {is_started} THEN now() END,
         CASE WHEN {is_started} THEN now()
             + {_LEASE} END"""
        join = " CROSS JOIN mine"
        answer = f""",
       mine.starts,
       now()
           + {_LEASE} AS expires_at"""
        answers = ("starts", "expires_at")
    if limited:
        reason = ", reason text"
        unless = " AND x.reason IS NULL"
        columns = """,
          outcome, completed_at, skipped_first, skipped_last, skipped_count,
          skipped_reason"""
        values = "".join(
            f""",
         CASE WHEN x.reason IS NOT NULL THEN {each} END"""
            for each in ("'skipped'", "now()", "x.at", "x.at", "1", "x.reason")
        )
    sql = f"""
WITH d AS MATERIALIZED (
  SELECT {", ".join(_OF_DEFINITION)} FROM task_definitions@task_definitions_id_key
   WHERE id = CAST(:definition_id AS uuid) AND deleted_at IS NULL
     FOR {"NO KEY UPDATE" if limited else "KEY SHARE"}),{mine}
x AS MATERIALIZED (
  SELECT b.id, b.shard, b.key, b.payload, b.trace_context, b.overrides,{
        " b.reason," * limited
    }
         coalesce(b.at, now() + b.delay * interval '1 microsecond') AS at
    FROM batch AS b (id uuid, shard bigint, key text, payload text, at timestamptz,
                     delay duration, trace_context text, overrides text{reason})),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, slot, overlap,
          frozen, key, execute_at, due_at, claimable_at, payload,
          trace_context, overrides, created_at{columns})
  SELECT x.id, d.key, x.shard,
         {_own("queue")},
         {_own("priority")},
         {_own("expire_after")},
         {_own("slot")}, d.overlap,
         d.paused, x.key, x.at, x.at,
         CASE WHEN NOT d.paused{unless} THEN greatest(x.at, now()) END, x.payload,
         x.trace_context, x.overrides, now(){values}
    FROM d CROSS JOIN x{join}
   WHERE NOT EXISTS (SELECT 1 FROM task_instances@task_instances_pkey AS i
                      WHERE i.id = x.id OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_instances@task_instances_key_key AS i
                      WHERE i.definition_key = d.key AND i.key = x.key
                        AND i.key IS NOT NULL OFFSET 0){
        " ON CONFLICT DO NOTHING" * joined
    }
  RETURNING id, claimable_at)
SELECT {", ".join(f"d.{name}" for name in DEFINITION_COLUMNS)}, now() AS now,
       ids_unless_all(made.id, :given) AS ids,
       notified(made, claimable_at, i) AS hinted{answer}
  FROM d{join}
"""
    of_definition = (f"d_{name}" for name in DEFINITION_COLUMNS)
    return Statement(
        sql, (*of_definition, "now", "ids", "hinted", *answers), races=True
    )


class _Limited(Exception):
    """Few instances of a definition may wait, which was not known."""


class Inserted(NamedTuple):
    """A definition that was inserted, as it is stored."""

    definition: TaskDefinition
    key: UUID
    contents: ContentsRow


class _Batch:
    """Definitions to be inserted, with the keys and the texts that they are to have."""

    def __init__(self, new: Sequence[TaskDefinition], dialect: Dialect) -> None:
        self._new = new
        self.keys = new_ids(len(new))
        self._contents = [write_contents(each) for each in new]
        self.given = {"given": len(new)}
        self.batches: Mapping[str, Batch] = {
            "x": [
                _row(each, key, dialect.shard_of(key))
                for each, key in zip(new, self.keys, strict=True)
            ],
            "c": [
                (key, *of) for key, of in zip(self.keys, self._contents, strict=True)
            ],
        }

    def inserted(
        self, now: datetime, ids: Collection[UUID] | None
    ) -> Sequence[Inserted]:
        """Those that were inserted at this time: these, or all."""
        every = map(
            Inserted,
            [rules.created(each, now, revision=1) for each in self._new],
            self.keys,
            self._contents,
        )
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


class SQLInserts(ByHandStore, SQLPuts):
    """Puts definitions, and makes instances by hand."""

    _statements: Statements
    _database: Database
    _dialect: Dialect
    _reader: Reader
    _classes: Classes
    # Whether few instances of a definition may wait, as far as that is known.
    _limited: dict[UUID, bool]

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
            known = self._live(connection, [each.id for each in others])
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

    def add_instances(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        if self._is_limited(definition_id):
            found = self._database.transact(
                lambda each: self._add_limited(each, definition_id, additions),
                waits=_WAITS_IN_TURN,
            )
        else:
            try:
                found = self._statements.within(
                    Lane.NEW,
                    lambda each: self._add(each, definition_id, additions, claimant),
                )
            except _Limited:
                return self.add_instances(definition_id, additions, claimant=claimant)
        _note_limit(self._limited, found)
        return found

    def _is_limited(self, definition_id: UUID) -> bool:
        """Whether few may wait: read once, and as each answer says from then on."""
        found = self._limited.get(definition_id)
        if found is not None:
            return found
        lane = self._statements.reading(Lane.NEW)
        terms = {"definition_id": definition_id}
        rows = self._statements.read(lane, LIVE, terms)
        return any(live_in(row).max_queue is not None for row in rows)

    def _add(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant | None,
        skipped: Mapping[UUID, str] | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances, and start those that are due for a claimant.

        Args:
            connection: Where.
            definition_id: The definition.
            additions: What to add.
            claimant: For whom.
            skipped: Why some are skipped, by their ids; None: not many may wait.
        """
        # Of those with one id or one key, only the first can be added.
        by_id = {each.id: each for each in reversed(additions)}
        firsts = {each.key or each.id: each for each in by_id.values()}
        # One order for all nodes, so that none waits for another in a circle.
        new = sorted(firsts.values(), key=lambda each: each.key or "")
        by_id |= {each.id: each for each in new}
        terms: dict[str, Any] = {"definition_id": definition_id, "given": len(new)}
        if claimant is not None:
            names = claimant.names
            terms |= start_terms(claimant)
            terms["queues"] = list(claimant.queues)
            terms["names"] = None if names is None else list(names)
        batch = [self._of_addition(each) for each in new]
        if skipped is not None:
            terms["hint_within"] = self._dialect.hint_within(connection, late=False)
            reasons = (skipped.get(each.id) for each in new)
            batch = [(*row, why) for row, why in zip(batch, reasons, strict=True)]
        joined, limited = self._dialect.joined, skipped is not None
        statement = add(starts=claimant is not None, limited=limited, joined=joined)
        rows = self._statements.execute(connection, statement, terms, {"b": batch})
        if not rows:
            raise TaskDefinitionNotFoundError(definition_id)
        [row] = rows
        there: Mapping[UUID, Any] = {}
        if row.ids is not None or skipped or len(new) < len(additions):
            made = {each.id for each in new} if row.ids is None else {*row.ids}
            made.difference_update(skipped or ())
            left = [each for each in additions if each.id not in made]
            there = existing(self._statements, connection, row.d_key, left)
        [definition] = self._reader.definitions(
            Lane.BY_HAND, [DefinitionRow(*row[:_WIDTH])]
        )
        if definition.max_queue is not None and skipped is None:
            self._limited[definition_id] = True
            if joined:
                raise Overtaken
            if self._statements.rolls_back:
                raise _Limited
        started: Mapping[str, object] = {}
        if claimant is not None and row.starts:
            started = {
                "claimed_by": claimant.node,
                "attempt": 1,
                "runs": 1,
                "started_at": row.now,
                "expires_at": row.expires_at,
            }
        return [
            read_instance(tuple(there[each.id]), definition)
            if each.id in there
            else _made(by_id[each.id], definition, row.now, started)
            for each in additions
        ]

    def _add_limited(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition of which few may wait: one adds at a time."""
        key, definition = lock_live(
            self._statements, connection, LIVE_AND_LOCKED, definition_id
        )
        beyond: Collection[UUID] = ()
        if (most := definition.max_queue) is not None:
            there = find(self._statements, connection, key, additions)
            theirs = (row.key for row in there if row.definition_key == key)
            known = {*(row.id for row in there), *filter(None, theirs)}
            waiting = count_waiting(self._statements, connection, key, most)
            beyond = rules.dropped(definition, additions, known=known, waiting=waiting)
        skipped = dict.fromkeys(beyond, rules.FULL % most)
        return self._add(connection, definition_id, additions, None, skipped)

    def _of_addition(self, addition: Addition) -> tuple[object, ...]:
        return (
            addition.id,
            self._dialect.shard_of(addition.id),
            addition.key,
            addition.payload_text,
            addition.at,
            addition.delay,
            addition.trace_context,
            write_overrides(addition.overrides),
        )


def _note_limit(known: dict[UUID, bool], found: Sequence[TaskInstance]) -> None:
    """Note of a definition whether few of its instances may wait."""
    if len(known) >= _MOST_KNOWN:
        known.clear()
    for each in found[:1]:
        known[each.definition.id] = each.definition.max_queue is not None


def _made(
    addition: Addition,
    definition: TaskDefinition,
    now: datetime,
    started: Mapping[str, object],
) -> TaskInstance:
    made = addition.made(definition, now)
    return changed(made, **started) if started and made.due_at <= now else made
