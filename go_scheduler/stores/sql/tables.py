"""The tables, as the statements see them; the migrations create them.

A definition is two rows. What moves, and what the loops look for, is narrow and in
``task_definitions``; what a user wrote, up to 64 KiB of it, is in ``task_contents`` and
is not touched when the definition fires. Both have the ``key`` of one life of the
definition: after a delete the row stays, marked, until its history is gone, and the
same ``id`` may begin another life under a new key. Of one that has ended and is gone
``task_tombstones`` keeps what says whether it would run again.

Columns and tables marked *not yet* are empty: no statement names them. They are for
limits, follow-ups, results and others still to come, so that no database has to be
changed for those.

Durations are whole microseconds. There are no foreign keys: a delete takes the rows it
has to, in batches, and a row without its definition harms nobody.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    false,
    select,
    text,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB

from go_scheduler.models import RunEnd, Stage, TaskRun
from go_scheduler.stores.sql.rows import (
    UNREADABLE,
    Id,
    Object,
    Overrides,
    Time,
    Value,
    write_contents,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Row, Select, Subquery
    from sqlalchemy.dialects.postgresql import Insert as PostgreSQLInsert
    from sqlalchemy.dialects.sqlite import Insert as SQLiteInsert

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition

metadata = MetaData()

_NO = false()
_ZERO = text("0")
_NORMAL = text("1")

definitions = Table(
    "task_definitions",
    metadata,
    Column("key", Id, primary_key=True),
    Column("id", Id, nullable=False),
    # Spreads what is due over ranges on CockroachDB; 0 elsewhere.
    Column("shard", SmallInteger, nullable=False, server_default=_ZERO),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False, server_default=_NORMAL),
    Column("expire_after", BigInteger),
    # Which slot its instances have in common, one at a time, and what decides on those
    # that are due while another one has it.
    Column("overlap", Text),
    Column("slot", Text),
    # Whether its trigger waits for the end of a run.
    Column("waits", Boolean, nullable=False, server_default=_NO),
    Column("next_fire_time", Time),
    # Whether it may have passed when it became visible: scans look at all such rows,
    # and at the others only from a bound on that moves with the time.
    Column("late", Boolean, nullable=False, server_default=_NO),
    Column("paused", Boolean, nullable=False, server_default=_NO),
    Column("note", Text),
    Column("paused_at", Time),
    Column("completed_at", Time),
    Column("deleted_at", Time),
    Column("revision", BigInteger, nullable=False),
    # Whether its id was passed, so that it is remembered.
    Column("named", Boolean, nullable=False, server_default=_NO),
    # The set that it was declared in.
    Column("owner", Text),
    Column("created_at", Time, nullable=False),
    # Unused: the key that users give it is among its policies, and makes its id.
    Column("label", Text),
    # Not yet, for limits: the row of task_limits by which its runs are counted.
    Column("limit_name", Text),
    # Not yet, for limits: the name in a payload whose values are counted apart.
    Column("limit_per", Text),
    # Not yet, for rates: the row of task_limits by which its starts are counted.
    Column("rate_name", Text),
    # Not yet, for rates: the name in a payload whose values are counted apart.
    Column("rate_per", Text),
    # Not yet, for follow-ups: what runs after a success or a failure, as JSON.
    Column("follow_up", Text),
    # Not yet, for pause_after: how many of its instances in a row failed for good.
    Column("failures", BigInteger),
    # Not yet, for pause_after: how many such failures pause it.
    Column("pause_after", BigInteger),
    # Not yet, for windows of execution: the hours in which it may run, as JSON.
    Column("run_window", Text),
    # The latest fire time that had begun, ahead of its time, when its trigger was
    # replaced. Its instance may be gone by then: it is not fired again.
    Column("fired_until", Time),
)
_is_due = text("next_fire_time IS NOT NULL AND NOT paused AND NOT late")
_is_late = text("next_fire_time IS NOT NULL AND NOT paused AND late")
_is_live = text("deleted_at IS NULL")
# All that are live. Whoever looks one up by its id does not say the second part, and
# then no planner can walk the index of queues for it.
_is_listed = text("deleted_at IS NULL AND queue >= ''")
_is_deleted = text("deleted_at IS NOT NULL")
_is_completed = text("completed_at IS NOT NULL")
_is_owned = text("owner IS NOT NULL AND deleted_at IS NULL")
_is_labelled = text("label IS NOT NULL AND deleted_at IS NULL")

contents = Table(
    "task_contents",
    metadata,
    Column("key", Id, primary_key=True),
    Column("name", Text),
    # The exact text is what is read. JSONB keeps neither -0.0 nor 1e300 as they are: it
    # serves to search, and is empty on SQLite.
    Column("metadata", Text, nullable=False),
    Column("metadata_search", JSONB().with_variant(Text(), "sqlite")),
    Column("trigger_kind", Text, nullable=False),
    Column("trigger_state", Text, nullable=False),
    Column("policies", Text, nullable=False),
    # Not yet, for audits: since when the definition has this trigger.
    Column("trigger_set_at", Time),
)

instances = Table(
    "task_instances",
    metadata,
    Column("id", Id, primary_key=True),
    Column("definition_key", Id, nullable=False),
    Column("shard", SmallInteger, nullable=False, server_default=_ZERO),
    # These follow the definition as long as the instance is open, but for what is among
    # its overrides, so that claim and start need no join.
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False, server_default=_NORMAL),
    Column("expire_after", BigInteger),
    Column("slot", Text),
    Column("waits", Boolean, nullable=False, server_default=_NO),
    Column("frozen", Boolean, nullable=False, server_default=_NO),
    # What decides on it when it is due and parked; empty: it waits.
    Column("overlap", Text),
    # Whether its slot is another instance's.
    Column("parked", Boolean, nullable=False, server_default=_NO),
    # The instance that had its slot when it was parked. It may have ended before
    # anybody decides.
    Column("behind", Id),
    # The overlap that it was backfilled with, whatever its definition's is; empty: it
    # was not. Like what has no fire time, it is not its schedule's then.
    Column("backfilled", Text),
    # When it was last made to run again by hand.
    Column("reopened_at", Time),
    Column("key", Text),
    Column("created_at", Time),
    Column("accepted_at", Time),
    Column("fire_time", Time),
    Column("execute_at", Time, nullable=False),
    Column("due_at", Time, nullable=False),
    Column("start_by", Time),
    # The later of due_at and of when it was made pending: nothing new ever stands
    # below the bound of a scan. Empty unless it is pending, not frozen nor parked.
    Column("claimable_at", Time),
    Column("attempt", BigInteger, nullable=False, server_default=_ZERO),
    Column("runs", BigInteger, nullable=False, server_default=_ZERO),
    Column("hangs", BigInteger, nullable=False, server_default=_ZERO),
    Column("claimed_by", Id),
    # The attempt whose run goes on outside of the node that has claimed it.
    Column("handed_on", BigInteger),
    Column("worker", Text),
    Column("expires_at", Time),
    Column("started_at", Time),
    # What whoever runs it elsewhere says of that, as JSON.
    Column("progress", Value),
    # Why it is pending again that was claimed and not run.
    Column("given_back", Text),
    Column("client", Value),
    Column("completed_at", Time),
    Column("outcome", Text),
    Column("ended_attempt", BigInteger),
    Column("result", Value),
    Column("error", Text),
    Column("cancel_requested", Boolean, nullable=False, server_default=_NO),
    # Which fire times it stands for, with fire_time as the first of them, or
    # skipped_first where it has none of its own.
    Column("skipped_first", Time),
    Column("skipped_last", Time),
    Column("skipped_count", BigInteger),
    Column("skipped_reason", Text),
    # Not in a column family of its own: beside one, CockroachDB skips no locked rows.
    Column("payload", Object),
    Column("trace_context", Text),
    # What it has of its own instead of its definition's, such as queue, retry and
    # timeouts, as JSON. Its columns of these follow the definition no more.
    Column("overrides", Overrides),
    # Not yet, for limits: its definition's.
    Column("limit_name", Text),
    # Not yet, for limits: the value in its payload that is counted apart.
    Column("limit_value", Text),
    # Not yet, for rates: its definition's.
    Column("rate_name", Text),
    # Not yet, for rates: the value in its payload that is counted apart.
    Column("rate_value", Text),
    # Not yet, for follow-ups: its definition's, or its own.
    Column("follow_up", Text),
    # Not yet, for follow-ups: the instance after whose end this one runs.
    Column("follows", Id),
    # Not yet, for results: whether somebody may ask for its result.
    Column("keeps_result", Boolean),
    # Not yet, for debouncing: the key that it shares with later calls, which move it
    # instead of making another one. The write that begins it empties it.
    Column("debounce_key", Text),
    # Not yet, for windows of execution: its definition's.
    Column("run_window", Text),
    UniqueConstraint("definition_key", "fire_time", name="task_instances_fire_key"),
    CheckConstraint(
        "(completed_at IS NULL) = (outcome IS NULL)", name="task_instances_end_check"
    ),
)

tombstones = Table(
    "task_tombstones",
    metadata,
    Column("id", Id, primary_key=True),
    Column("shard", SmallInteger, nullable=False, server_default=_ZERO),
    Column("trigger_kind", Text, nullable=False),
    Column("trigger_state", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("completed_at", Time, nullable=False),
)

nodes = Table(
    "task_nodes",
    metadata,
    Column("node", Id, primary_key=True),
    # The last time without a break in which it reached this store.
    Column("contact_since", Time, nullable=False),
    Column("seen_at", Time, nullable=False),
    # Those that it serves, and those that it has a handler for, as JSON; empty names:
    # any.
    Column("queues", Text),
    Column("names", Text),
    Column("host", Text),
    Column("pid", BigInteger),
    Column("version", Text),
    # It tells of itself several times in so long.
    Column("lease", BigInteger),
    # Whether it takes nothing more.
    Column("stopping", Boolean, nullable=False, server_default=_NO),
)

stats = Table(
    "task_stats",
    metadata,
    # A minute, in microseconds.
    Column("every", BigInteger, primary_key=True, autoincrement=False),
    Column("begins_at", Time, primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("node", Id, primary_key=True),
    # How many ended in which way, and how late they began, as JSON.
    Column("ended", Text, nullable=False),
    Column("lateness", Text, nullable=False),
)

# Those that did not end their instance well.
runs = Table(
    "task_runs",
    metadata,
    Column("instance_id", Id, primary_key=True),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("node", Id),
    Column("worker", Text),
    Column("lost_in", Text),
    Column("started_at", Time),
    Column("ended_at", Time, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("error", Text),
)

# Which of the instances that exclude each other has begun to run. A row whose instance
# has ended, or is gone, is as good as none.
slots = Table(
    "task_slots",
    metadata,
    Column("name", Text, primary_key=True),
    # Not yet, for limits: which of the slots of that name. A lock has one.
    Column(
        "number",
        BigInteger,
        primary_key=True,
        autoincrement=False,
        server_default=_ZERO,
    ),
    # Not yet, for limits: empty while nobody has the slot.
    Column("instance_id", Id),
    # Not yet, for limits: which run of the instance has the slot.
    Column("attempt", BigInteger),
)

# Not yet, for limits and rates: how many may run at once, and start within a time.
limits = Table(
    "task_limits",
    metadata,
    Column("name", Text, primary_key=True),
    # Limits: how many may run at once.
    Column("n", BigInteger),
    # Rates: how many may start within so many microseconds, and how many at once.
    Column("rate", BigInteger),
    Column("every", BigInteger),
    Column("burst", BigInteger),
    # Whether nothing more is let go on.
    Column("paused", Boolean, nullable=False, server_default=_NO),
    # The set that it was declared in.
    Column("owner", Text),
    # Which of its edits this is.
    Column("revision", BigInteger, nullable=False),
)

# Not yet, for rates: from when on each may let another instance start.
tokens = Table(
    "task_tokens",
    metadata,
    # The rate, with the value that is counted apart.
    Column("name", Text, primary_key=True),
    Column("free_at", Time, nullable=False),
)

# What an application declares at its start, as a whole.
sets = Table(
    "task_sets",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("version", BigInteger),
    Column("declared_at", Time, nullable=False),
)

settings = Table(
    "task_settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# The statements that name an instance by its id must walk the primary key. None of
# these predicates follows from their guard, (attempt, completed_at IS NULL, claimed_by
# IS NOT NULL), so that no planner can take one of these indexes for them.
_is_claimable = text("claimable_at IS NOT NULL")
_is_parked = text("parked AND NOT frozen")
_is_undecided = text("parked AND NOT frozen AND overlap IS NOT NULL")
_may_lapse = text("claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen")
_is_open = text("completed_at IS NULL AND outcome IS NULL")
_has_ended = text("completed_at IS NOT NULL AND outcome <> 'failed'")
_has_failed = text("completed_at IS NOT NULL AND outcome = 'failed'")
_ended_unrun = text("completed_at IS NOT NULL AND outcome IN ('cancelled', 'skipped')")
_has_key = text("key IS NOT NULL")
_is_debounced = text("debounce_key IS NOT NULL AND completed_at IS NULL")
_ALL = ("cockroachdb", "postgresql", "sqlite")
_SHARDED, _NOT_SHARDED, _SERVERS = _ALL[:1], _ALL[1:], _ALL[:2]


def _index(  # type: ignore[no-untyped-def]
    name: str,
    *columns: Column[object],
    where: object = None,
    unique: bool = False,
    on: Collection[str] = _ALL,
):
    # It takes several dialects, and its types say one.
    index: Any = Index(
        name,
        *columns,
        unique=unique,
        postgresql_where=where,
        sqlite_where=where,
        info={"on": on},
    )
    return index.ddl_if(dialect=tuple(on))


def _indexes(name: str, *columns: Column[object], where: object = None) -> list[Index]:
    """One that has the shard among its columns, and one without it for the others."""
    others = [each for each in columns if each.name != "shard"]
    return [
        _index(name, *columns, where=where, on=_SHARDED),
        _index(name, *others, where=where, on=_NOT_SHARDED),
    ]


def is_on(index: Index, engine: str) -> bool:
    """Whether an engine has an index, by its name for SQLAlchemy."""
    return engine in index.info.get("on", _ALL)


_of, _made, _gone = definitions.c, instances.c, tombstones.c
_end = (_made.shard, _made.completed_at)
indexes = (
    _index("task_definitions_id_key", _of.id, where=_is_live, unique=True),
    *_indexes(
        "task_definitions_due_idx",
        *(_of.shard, _of.next_fire_time, _of.id),
        where=_is_due,
    ),
    # It is short, so it has no shards.
    _index("task_definitions_late_idx", _of.next_fire_time, _of.id, where=_is_late),
    *_indexes(
        "task_definitions_completed_idx",
        *(_of.shard, _of.completed_at),
        where=_is_completed,
    ),
    *_indexes(
        "task_definitions_deleted_idx", *(_of.shard, _of.deleted_at), where=_is_deleted
    ),
    _index("task_definitions_former_idx", _of.id, where=_is_deleted),
    _index("task_definitions_owner_idx", _of.owner, _of.id, where=_is_owned),
    # SQLite, which has no statistics, would take it where nearly all are in one queue,
    # too.
    _index(
        "task_definitions_queue_idx",
        _of.queue,
        _of.id,
        where=_is_listed,
        on=_SERVERS,
    ),
    *_indexes(
        "task_instances_claimable_idx",
        *(_made.queue, _made.priority, _made.shard, _made.claimable_at, _made.due_at),
        where=_is_claimable,
    ),
    _index(
        "task_instances_parked_idx",
        _made.slot,
        _made.priority,
        _made.due_at,
        _made.execute_at,
        where=_is_parked,
    ),
    _index(
        "task_instances_undecided_idx",
        _made.slot,
        _made.due_at,
        _made.execute_at,
        where=_is_undecided,
    ),
    *_indexes(
        "task_instances_lease_idx",
        *(_made.shard, _made.expires_at, _made.queue),
        where=_may_lapse,
    ),
    _index("task_instances_open_idx", _made.definition_key, where=_is_open),
    *_indexes("task_instances_ended_idx", *_end, where=_has_ended),
    *_indexes("task_instances_failed_idx", *_end, _made.id, where=_has_failed),
    # Commonly few among many that are completed.
    *_indexes(
        "task_instances_unrun_idx", _made.outcome, *_end, _made.id, where=_ended_unrun
    ),
    _index(
        "task_instances_key_key",
        _made.definition_key,
        _made.key,
        where=_has_key,
        unique=True,
    ),
    # Of what has no such key, which is all today, these two have no entry.
    _index("task_definitions_label_key", _of.label, where=_is_labelled, unique=True),
    _index(
        "task_instances_debounce_key",
        _made.definition_key,
        _made.debounce_key,
        where=_is_debounced,
        unique=True,
    ),
    *_indexes(
        "task_tombstones_completed_idx", _gone.shard, _gone.completed_at, _gone.id
    ),
)


_COLUMNS = (
    "instance_id",
    "attempt",
    "node",
    "started_at",
    "ended_at",
    "outcome",
    "error",
    "worker",
    "lost_in",
)
_STAGES = {None: None} | {stage.value: stage for stage in Stage}
_ENDS = {end.value: end for end in RunEnd}


def read_runs(connection: Connection, instance_id: UUID) -> Sequence[TaskRun]:
    """The runs of an instance, earliest attempt first; but for what cannot be read."""
    rows = connection.execute(
        select(*(runs.c[name] for name in _COLUMNS))
        .where(runs.c.instance_id == instance_id)
        .order_by(runs.c.attempt)
    )
    return [_run(row) for row in rows if _is_readable(row)]


def _is_readable(row: Row[Any]) -> bool:
    known = row.outcome in _ENDS and row.lost_in in _STAGES
    return known and UNREADABLE not in row


def _run(row: Row[Any]) -> TaskRun:
    values = {**row._mapping, "outcome": _ENDS[row.outcome]}
    values["lost_in"] = _STAGES[row.lost_in]
    return TaskRun(**values)


Read = TypeVar("Read")


class Dialect(ABC):
    """The differences between engines, but for the statements of the loops.

    Attributes:
        name: What SQLAlchemy calls it.
        shards: Over how many parts of an index what is due is spread.
        reads_rows: Whether a scan that locks may read more rows than it takes: only
            those that it takes are locked.
        claims_together: Whether one statement claims in several places.
        joined: Whether it is for a transaction of the user's, which commits at any
            time later.
    """

    name: str
    shards = 1
    reads_rows = True
    claims_together = False
    joined = False

    def shard_of(self, id: UUID) -> int:
        """In which part of such an index the row of an id is."""
        return id.int % self.shards

    def parts(self, shard: ColumnElement[Any]) -> Sequence[ColumnElement[bool]]:
        """The condition of each part of an index that begins with its shard, if any."""
        if self.shards == 1:
            return [true()]
        return [shard == number for number in range(self.shards)]

    def first_of_each_shard(
        self, query: Select[Any], shard: ColumnElement[Any]
    ) -> Subquery:
        """What a query with an order and a limit has in each part of such an index."""
        parts = (query.where(part).subquery() for part in self.parts(shard))
        return union_all(*map(select, parts)).subquery()

    @abstractmethod
    def now(self, connection: Connection) -> datetime:
        """The store's time."""

    @abstractmethod
    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """Whether a column is one of many ids, as one parameter."""

    def looked_up(self, query: Select[Any], table: Table, index: str) -> Select[Any]:
        """A query of some rows of a table, which are looked up by an index only."""
        return query

    @abstractmethod
    def contains(self, metadata: Mapping[str, JSON]) -> ColumnElement[bool]:
        """Whether a definition's metadata contains this."""

    @abstractmethod
    def insert(self, table: Table) -> PostgreSQLInsert | SQLiteInsert:
        """Insert rows; what conflicts may be left out."""

    def write_contents(self, definition: TaskDefinition) -> dict[str, object]:
        """The columns of ``task_contents``, but for the key."""
        row = write_contents(definition)
        return {**row._asdict(), "metadata_search": json.loads(row.metadata)}

    @abstractmethod
    def ready(self, connection: Connection) -> None:
        """Make a connection of the user's ready for these words."""

    def check_edits(self, connection: Connection) -> None:  # noqa: B027
        """Refuse a user's transaction whose edits would not hold up who adds to them.

        Raises:
            ConfigurationError: It is at too weak an isolation level.
        """

    def in_autocommit(self, connection: Connection) -> bool:
        """Whether a connection of the user's commits each statement by itself."""
        # Every driver of SQLAlchemy's for such a server has this attribute; SQLAlchemy
        # itself has none before 2.0.43.
        driver: Any = connection.connection.dbapi_connection
        return bool(driver.autocommit)

    @abstractmethod
    def ordered(self, connection: Connection, texts: Collection[str]) -> Sequence[str]:
        """Texts in the order in which an index has them."""

    @abstractmethod
    def hint(
        self,
        connection: Connection,
        times: Iterable[datetime | None],
        now: datetime,
        *,
        late: bool = False,
    ) -> None:
        """Have other processes look, once this commits, if any of these is soon.

        Args:
            connection: Within whose transaction.
            times: When what was put is due.
            now: When it was put.
            late: Whether that may commit only much later.
        """

    def hint_within(self, connection: Connection, *, late: bool) -> timedelta | None:
        """How soon it must be due what others are told of; None: of nothing."""
        return None

    def listed(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """Read; the result need not be of this very moment."""
        return read(connection)

    def past_locks(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """Read, though somebody else may have locked the rows."""
        return read(connection)
