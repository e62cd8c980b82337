"""Instances in a SQLite file that nodes have claimed: claim to finish."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from go_scheduler.models import Cancelled
from go_scheduler.stores.messages import Answer
from go_scheduler.stores.rules import with_silences
from go_scheduler.stores.sql.database import LATE_AFTER, Lane
from go_scheduler.stores.sql.reader import (
    as_parked,
    earliest_first,
    readable_claims,
)
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    DefinitionRow,
    missing_definition,
    read_contents,
    read_definition,
    read_instance,
    silences_of,
    to_microseconds,
    to_sqlite_time,
)
from go_scheduler.stores.sqlite import statements
from go_scheduler.stores.sqlite.batches import (
    ends,
    kept_runs,
    key_of,
    long_histories,
    results,
    retries,
    run_batch,
    successes,
    time_of,
    write_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set
    from datetime import datetime, timedelta

    from sqlalchemy import Connection, Row

    from go_scheduler.models import Silence, TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import (
        Claim,
        Claimant,
        Release,
        Renewal,
        RunOutcome,
    )
    from go_scheduler.stores.sql.database import Classes
    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sqlite.database import SQLiteDatabase


def claim_lapsed(
    connection: Connection, queues: Sequence[str], terms: Mapping[str, object]
) -> tuple[Sequence[Row[Any]], Mapping[UUID, Silence]]:
    """Claim what has lapsed anew.

    Returns:
        The rows, and by their ids what is known of those runs that were on a bus.
    """
    parameters = {**terms, "queues": json.dumps(queues)}
    found = statements.FIND_LAPSED.fetch(connection, parameters)
    if not found:
        return [], {}
    named = {**terms, "ids": json.dumps([row.id.hex for row in found])}
    connection.exec_driver_sql(statements.KEEP_LOST, named)
    return statements.CLAIM_NAMED.execute(connection, named), silences_of(found)


_LATE = to_microseconds(LATE_AFTER)


def finish_in_full(
    connection: Connection, by_id: Mapping[str, RunOutcome], now: int
) -> Set[str]:
    """Record what became of runs, whatever it is; the ids of those that counted."""
    batch = [(*key_of(each.claim), each.outcome) for each in by_id.values()]
    rows = run_batch(connection, statements.FINISH_FOUND, batch)
    recorded = [(row, by_id[row.id]) for row in rows]
    write_all(connection, statements.FINISH_END, ends(recorded, now))
    write_all(connection, statements.FINISH_RETRY, retries(recorded, now))
    kept = kept_runs(recorded, now)
    write_all(connection, statements.KEEP_RUN, kept)
    write_all(connection, statements.TRIM_RUNS, long_histories(kept))
    waiting = {
        row.definition_key: each.next_fire_time
        for row, each in recorded
        if row.waits and each.outcome
    }
    go_on(connection, waiting, now)
    free_slots(connection, [row for row, each in recorded if each.outcome])
    return {row.id for row in rows}


def go_on(
    connection: Connection, waiting: Mapping[str, datetime | None], now: int
) -> None:
    """Move the definitions on, by their keys, that waited for what has ended."""
    late = now - _LATE
    moved = [
        {"key": key, "next_at": time_of(at), "now": now, "late": late}
        for key, at in waiting.items()
    ]
    write_all(connection, statements.GO_ON, moved)


def free_slots(connection: Connection, rows: Sequence[Row[Any]]) -> None:
    """Let instances that have ended go of their slots."""
    freed = [(row.slot, row.id) for row in rows if row.slot is not None]
    write_all(connection, statements.FREE_SLOT, freed)


_WIDTH = len(DEFINITION_COLUMNS)


class ClaimedInstances:
    """Claims instances, and changes what is claimed, as the store's methods say.

    Args:
        database: Where.
        reader: Makes instances of rows.
        microseconds: The store's time.
        classes: Says which classes of priority there are.
    """

    def __init__(
        self,
        database: SQLiteDatabase,
        reader: Reader,
        microseconds: Callable[[], int],
        classes: Classes,
    ) -> None:
        self._database = database
        self._reader = reader
        self._microseconds = microseconds
        self._classes = classes

    def claim(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node."""
        if not (claimant.queues and self._look(claimant, ahead, lapsed)):
            return []
        looks = self._classes.look()
        asked = self._classes.in_turn(every=looks)

        def claim(connection: Connection) -> tuple[_Taken, Mapping[UUID, Silence]]:
            now = self._microseconds()
            terms = {
                **_terms(claimant, now),
                "node": claimant.node.hex,
                "lead": now + to_microseconds(lead),
            }
            old: Sequence[Row[Any]] = []
            silences: Mapping[UUID, Silence] = {}
            if lapsed is not None and now <= to_sqlite_time(deadline):
                lapsed_at = now - to_microseconds(lapsed)
                terms |= {"lapsed": lapsed_at, "limit": limit}
                old, silences = claim_lapsed(connection, claimant.queues, terms)
            new: Sequence[Row[Any]] = []
            if left := limit - len(old):
                until = now + to_microseconds(ahead)
                terms |= {"until": until, "limit": left}
                new = _claim_free(connection, claimant.queues, asked, terms)
            return _taken(connection, old, new, with_contents=True), silences

        taken, silences = self._database.transact(claim)
        old, new = self._instances(taken)
        old = with_silences(old, silences)
        if looks:
            self._classes.seen([each.definition for each in new])
        return earliest_first(old) + earliest_first(new)

    def _look(
        self, claimant: Claimant, ahead: timedelta, lapsed: timedelta | None
    ) -> bool:
        """Whether there may be anything to claim."""
        now = self._microseconds()
        parameters = {
            "queues": json.dumps(claimant.queues),
            "until": now + to_microseconds(ahead),
            "lapsed": None if lapsed is None else now - to_microseconds(lapsed),
        }
        return self._database.run(
            Lane.BY_TIME,
            lambda connection: bool(
                connection.exec_driver_sql(statements.LOOK, parameters).scalar()
            ),
        )

    def _instances(self, taken: _Taken) -> list[list[TaskInstance]]:
        """The instances of rows; read without keeping others from writing."""
        by_key: dict[object, TaskDefinition] = {}
        known: dict[object, DefinitionRow] = {}
        read = statements.DEFINITIONS.read(taken.definitions)
        for stored, values in zip(taken.definitions, read, strict=True):
            row = DefinitionRow(*values[:_WIDTH])
            if values.trigger_kind is None:
                known[stored.key] = row
            else:
                by_key[stored.key] = read_definition(row, read_contents(values))
        found = self._reader.definitions(Lane.BY_TIME, list(known.values()))
        by_key.update(zip(known, found, strict=True))
        return [
            [
                read_instance(
                    values,
                    by_key.get(row.definition_key) or missing_definition(values[1]),
                )
                for row, values in zip(
                    rows, statements.CLAIM_NAMED.read(rows), strict=True
                )
            ]
            for rows in taken.instances
        ]

    def page(self, node: UUID, after: str, limit: int) -> Sequence[TaskInstance]:
        """Those of a node, in the order of their ids."""
        parameters = {"node": node.hex, "after": after, "limit": limit}

        def read(connection: Connection) -> _Taken:
            return _taken(
                connection, statements.LIST_CLAIMED.execute(connection, parameters)
            )

        [claimed] = self._instances(self._database.run(Lane.BY_TIME, read))
        return readable_claims(claimed)

    def start(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        if not claims:
            return Answer(done=[])
        batch = [key_of(each) for each in claims]

        def start(connection: Connection) -> _Taken:
            terms = _terms(claimant, self._microseconds())
            parameters = {"batch": json.dumps(batch), **terms}
            rows = statements.START.execute(connection, parameters)
            # What has to have a slot is left over.
            left = [row.id for row in rows if row.started_at is None]
            if not left:
                return _taken(connection, rows)
            others = _start_in_slots(connection, left, terms)
            rows = [row for row in rows if row.started_at is not None]
            return _taken(connection, [*rows, *others])

        [started] = self._instances(self._database.transact(start))
        return Answer(done=readable_claims(map(as_parked, started)))

    def renew(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold longer."""
        if not renewals:
            return Answer(done={})
        batch = [
            (
                *key_of(each.claim),
                to_microseconds(each.lease),
                each.handed_on,
                each.worker,
                each.step,
                each.progress,
            )
            for each in renewals
        ]

        def renew(connection: Connection) -> Mapping[UUID, bool]:
            rows = run_batch(
                connection, statements.RENEW, batch, now=self._microseconds()
            )
            return {UUID(row.id): bool(row.cancel_requested) for row in rows}

        return Answer(done=self._database.transact(renew))

    def finish(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        if not outcomes:
            return Answer(done=frozenset())
        by_id = {each.claim.instance_id.hex: each for each in outcomes}
        well = successes(outcomes)

        def finish(connection: Connection) -> Set[UUID]:
            now = self._microseconds()
            rows = run_batch(connection, statements.FINISH_WELL, well, now=now)
            done = {row.id for row in rows}
            if left := {id: each for id, each in by_id.items() if id not in done}:
                done |= finish_in_full(connection, left, now)
            write_all(connection, statements.KEEP_RESULT, results(by_id, done))
            return {by_id[id].claim.instance_id for id in done}

        return Answer(done=self._database.transact(finish))

    def release(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        if not releases:
            return Answer(done=frozenset())

        def release(connection: Connection) -> Set[UUID]:
            now = self._microseconds()
            batch = [
                (*key_of(each.claim), now + to_microseconds(each.delay), each.reason)
                for each in releases
            ]
            rows = run_batch(connection, statements.RELEASE, batch, now=now)
            free_slots(connection, [row for row in rows if not row.runs])
            return {UUID(row.id) for row in rows}

        return Answer(done=self._database.transact(release))

    def cancel(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started, claimed or not; ask what runs to stop."""
        if not cancellations:
            return {}
        by_id = {each.hex: each for each in cancellations}
        batch = [(id,) for id in by_id]

        def cancel(connection: Connection) -> Mapping[UUID, Cancelled]:
            now = self._microseconds()
            rows = run_batch(connection, statements.CANCEL, batch, now=now)
            waiting = {
                row.definition_key: cancellations[by_id[row.id]]
                for row in rows
                if row.waits and row.outcome
            }
            go_on(connection, waiting, now)
            free_slots(connection, [row for row in rows if row.outcome])
            return {
                by_id[row.id]: (
                    Cancelled.CANCELLED if row.outcome else Cancelled.REQUESTED
                )
                for row in rows
            }

        return self._database.transact(cancel)


def _start_in_slots(
    connection: Connection, ids: Sequence[str], terms: Mapping[str, object]
) -> Sequence[Row[Any]]:
    """Give those their slots that come first, and park the others."""
    among = json.dumps(ids)
    wanted = connection.exec_driver_sql(statements.WANTED_SLOTS, {"ids": among})
    write_all(connection, statements.TAKE_SLOT, [tuple(row) for row in wanted])
    return statements.START_IN_SLOTS.execute(connection, {"ids": among, **terms})


def _claim_free(
    connection: Connection,
    queues: Sequence[str],
    classes: Sequence[int],
    terms: Mapping[str, object],
) -> Sequence[Row[Any]]:
    named = {f"queue{number}": each for number, each in enumerate(queues)}
    statement = statements.claim(len(queues), tuple(classes))
    return statement.execute(connection, {**terms, **named})


class _Taken(NamedTuple):
    """The rows that a claim or start has marked, and those of their definitions."""

    instances: Sequence[Sequence[Row[Any]]]
    definitions: Sequence[Row[Any]]


def _taken(
    connection: Connection, *rows: Sequence[Row[Any]], with_contents: bool = False
) -> _Taken:
    """Read the definitions of rows; contents too, of what is not needed again."""
    started = {
        each.definition_key: with_contents and each.started_at is not None
        for part in rows
        for each in part
        if isinstance(each.definition_key, str)
    }
    if not started:
        return _Taken(rows, [])
    parameters = {"batch": json.dumps(list(started.items()))}
    found = statements.DEFINITIONS.execute(connection, parameters)
    return _Taken(rows, found)


def _terms(claimant: Claimant, now: int) -> dict[str, object]:
    return {
        "now": now,
        "lease": to_microseconds(claimant.lease),
        "expire_after": to_microseconds(claimant.expire_after),
    }
