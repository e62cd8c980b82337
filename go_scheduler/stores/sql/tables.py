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
from sqlalchemy.dialects.postgresql import Insert as PostgreSQLInsert

from go_scheduler.stores.hints import SOON, SOON_AFTER_ALL
from go_scheduler.stores.sql.rows import (
    Id,
    Object,
    Overrides,
    Time,
    Value,
    write_contents,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from datetime import datetime, timedelta
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Select, Subquery
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

_FIRES = "next_fire_time IS NOT NULL AND NOT paused"
_PARKED = "parked AND NOT frozen"
_ENDED = "completed_at IS NOT NULL"
# Each index with its columns, and the condition on its rows; a key is unique.
#
# The statements that name an instance by its id must walk the primary key. None of
# these conditions follows from their guard, (attempt, completed_at IS NULL, claimed_by
# IS NOT NULL), so that no planner can take one of these indexes for them.
_OF_DEFINITIONS = [
    ("id_key", "id", "deleted_at IS NULL"),
    ("due_idx", "shard next_fire_time id", f"{_FIRES} AND NOT late"),
    # It is short, so it has no shards.
    ("late_idx", "next_fire_time id", f"{_FIRES} AND late"),
    ("completed_idx", "shard completed_at", "completed_at IS NOT NULL"),
    ("deleted_idx", "shard deleted_at", "deleted_at IS NOT NULL"),
    ("former_idx", "id", "deleted_at IS NOT NULL"),
    ("owner_idx", "owner id", "owner IS NOT NULL AND deleted_at IS NULL"),
    # All that are live. Whoever looks one up by its id does not say the second part,
    # and then no planner can walk the index of queues for it. SQLite, which has no
    # statistics, would take it where nearly all are in one queue, too.
    ("queue_idx", "queue id", "deleted_at IS NULL AND queue >= ''"),
    # Of what has no such key, which is all today, this has no entry.
    ("label_key", "label", "label IS NOT NULL AND deleted_at IS NULL"),
]
_OF_INSTANCES = [
    (
        "claimable_idx",
        "queue priority shard claimable_at due_at",
        "claimable_at IS NOT NULL",
    ),
    ("parked_idx", "slot priority due_at execute_at", _PARKED),
    ("undecided_idx", "slot due_at execute_at", f"{_PARKED} AND overlap IS NOT NULL"),
    (
        "lease_idx",
        "shard expires_at queue",
        "claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen",
    ),
    ("open_idx", "definition_key", "completed_at IS NULL AND outcome IS NULL"),
    ("ended_idx", "shard completed_at", f"{_ENDED} AND outcome <> 'failed'"),
    ("failed_idx", "shard completed_at id", f"{_ENDED} AND outcome = 'failed'"),
    # Commonly few among many that are completed.
    (
        "unrun_idx",
        "outcome shard completed_at id",
        f"{_ENDED} AND outcome IN ('cancelled', 'skipped')",
    ),
    ("key_key", "definition_key key", "key IS NOT NULL"),
    # Of what has no such key, which is all today, this has no entry.
    (
        "debounce_key",
        "definition_key debounce_key",
        "debounce_key IS NOT NULL AND completed_at IS NULL",
    ),
]
_ALL = ("cockroachdb", "postgresql", "sqlite")
_SHARDED, _NOT_SHARDED, _SERVERS = _ALL[:1], _ALL[1:], _ALL[:2]


def _indexes() -> Iterator[Index]:
    """All indexes: of one that has the shard, another without it for most engines."""
    for table, described in (
        (definitions, _OF_DEFINITIONS),
        (instances, _OF_INSTANCES),
        (tombstones, [("completed_idx", "shard completed_at id", None)]),
    ):
        for name, listed, where in described:
            columns = listed.split()
            if "shard" in columns:
                yield _index(table, name, columns, where, on=_SHARDED)
                columns.remove("shard")
                yield _index(table, name, columns, where, on=_NOT_SHARDED)
            else:
                on = _SERVERS if name == "queue_idx" else _ALL
                yield _index(table, name, columns, where, on=on)


def _index(
    table: Table,
    name: str,
    columns: Sequence[str],
    where: str | None,
    *,
    on: Sequence[str],
) -> Index:
    condition = None if where is None else text(where)
    index: Any = Index(
        f"{table.name}_{name}",
        *(table.c[each] for each in columns),
        unique=name.endswith("_key"),
        postgresql_where=condition,
        sqlite_where=condition,
        info={"on": on},
    )
    # It takes several dialects, and its types say one.
    made: Index = index.ddl_if(dialect=on)
    return made


def is_on(index: Index, engine: str) -> bool:
    """Whether an engine has an index, by its name for SQLAlchemy."""
    return engine in index.info["on"]


indexes = [*_indexes()]


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

    def ready(self, connection: Connection) -> None:  # noqa: B027
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
        until = now + (SOON_AFTER_ALL if late else SOON)
        if any(each is not None and each <= until for each in times):
            self.notify(connection)

    def notify(self, connection: Connection) -> None:  # noqa: B027
        """Have other processes look, once this commits, where somebody listens."""

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
