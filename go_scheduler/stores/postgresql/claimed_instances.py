"""Instances of the PostgreSQL family that nodes have claimed: start to finish."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreError
from go_scheduler.models import RUNS_KEPT, Cancelled
from go_scheduler.stores.messages import Answer
from go_scheduler.stores.postgresql import dialect
from go_scheduler.stores.postgresql.executing import Write
from go_scheduler.stores.sql.database import LATE_AFTER, Lane
from go_scheduler.stores.sql.reader import as_parked, readable_claims
from go_scheduler.stores.sql.rows import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.messages import (
        Claim,
        Claimant,
        Release,
        Renewal,
        RunOutcome,
    )
    from go_scheduler.stores.postgresql.executing import Item, Statements, Writes
    from go_scheduler.stores.sql.reader import Reader


class ClaimedInstances:
    """Changes what is owned by the claims of a batch, as the store's methods say.

    Args:
        statements: Executes what reads, and what names no claim.
        writes: Executes the others.
        reader: Makes instances of rows.
    """

    def __init__(self, statements: Statements, writes: Writes, reader: Reader) -> None:
        self._statements = statements
        self._writes = writes
        self._reader = reader

    def page(self, node: UUID, after: UUID, limit: int) -> Sequence[TaskInstance]:
        """Those of a node, in the order of their ids."""
        parameters = {"node": node, "after": after, "limit": limit}
        rows = self._statements.read(Lane.BY_TIME, "list_claimed", parameters)
        return readable_claims(self._reader.claimed(Lane.BY_TIME, rows))

    def start(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        if not claims:
            return Answer(done=[])

        def parameters(batch: Sequence[Claim]) -> Mapping[str, object]:
            return {
                **_keys(batch),
                "lease": claimant.lease,
                "expire_after": claimant.expire_after,
            }

        def start(
            name: str, some: Sequence[Claim]
        ) -> tuple[Sequence[TaskInstance], Set[UUID]]:
            write = _write(
                name,
                apart=f"{name}_past_locks",
                parameters=parameters,
                id_of=attrgetter("instance_id"),
            )
            rows, busy = self._writes.write(write, some)
            return self._reader.claimed(Lane.BY_KEY, rows), busy

        ordered = sorted(claims, key=attrgetter("instance_id.int"))
        started, busy = start("start", ordered)
        in_slots = {each.id for each in started if each.started_at is None}
        if in_slots:
            started = [each for each in started if each.id not in in_slots]
            some = [each for each in ordered if each.instance_id in in_slots]
            others, busy_too = start("start_in_slots", some)
            started += map(as_parked, others)
            busy |= busy_too
        return Answer(done=readable_claims(started), busy=busy)

    def renew(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold longer."""
        if not renewals:
            return Answer(done={})
        name, parameters = "renew", _renewal_parameters
        if any(each.worker or each.stage or each.progress for each in renewals):
            name, parameters = "renew_elsewhere", _elsewhere_parameters
        write = _write(name, lane=Lane.RENEWALS, parameters=parameters)
        rows, busy = self._writes.write(write, sorted(renewals, key=_number))
        return Answer(done={row.id: row.cancel_requested for row in rows}, busy=busy)

    def finish(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        if not outcomes:
            return Answer(done=frozenset())
        plain = not any(
            each.is_kept or each.has_slot or each.outcome is None for each in outcomes
        )
        name = "finish" if plain else "finish_in_full"
        parameters = _outcome_parameters
        if any(each.result is not None or each.client is not None for each in outcomes):
            name, parameters = f"{name}_with_results", _result_parameters
        write: Write[RunOutcome] = Write(
            lane=Lane.BY_KEY,
            name=name,
            apart=name,
            free="finish_free",
            current="finish_current",
            parameters=parameters,
            id_of=attrgetter("claim.instance_id"),
            # A finish that was done, and is repeated, answers that claims were lost.
            repeatable=False,
        )
        rows, busy = self._writes.write(write, sorted(outcomes, key=_number))
        self._trim_runs(each for each in outcomes if each.is_kept)
        return Answer(done={id for (id,) in rows}, busy=busy)

    def _trim_runs(self, kept: Iterable[RunOutcome]) -> None:
        """Keep the last runs only; there are more only after so many attempts."""
        ids = [
            each.claim.instance_id for each in kept if each.claim.attempt > RUNS_KEPT
        ]
        if ids:
            parameters = {"ids": dialect.ids(sorted(ids)), "kept": RUNS_KEPT}
            # What was finished stays so: the next run of it trims what is left, or its
            # cleanup does.
            with suppress(StoreError):
                self._statements.run(Lane.BY_KEY, "trim_runs", parameters)

    def release(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        if not releases:
            return Answer(done=frozenset())
        write = _write("release", parameters=_release_parameters)
        rows, busy = self._writes.write(write, sorted(releases, key=_number))
        return Answer(done={row.id for row in rows}, busy=busy)

    def cancel(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started, claimed or not; ask what runs to stop."""
        if not cancellations:
            return {}
        ordered = sorted(cancellations, key=lambda each: each.int)
        parameters = {
            "ids": dialect.ids(ordered),
            "next_times": dialect.times(cancellations[each] for each in ordered),
            "late": LATE_AFTER,
        }
        rows = self._statements.run(
            Lane.BY_HAND, "cancel", parameters, repeatable=False
        )
        return {
            row.id: Cancelled.REQUESTED if row.runs_on else Cancelled.CANCELLED
            for row in rows
        }


def _write(
    name: str,
    *,
    lane: Lane = Lane.BY_KEY,
    apart: str | None = None,
    parameters: Callable[[Sequence[Item]], Mapping[str, object]],
    id_of: Callable[[Item], UUID] = attrgetter("claim.instance_id"),
) -> Write[Item]:
    """A write that changes what is owned by the claims of its batch."""
    return Write(
        lane=lane,
        name=name,
        apart=apart or name,
        free="claimed_free",
        current="claimed_current",
        parameters=parameters,
        id_of=id_of,
    )


_number = attrgetter("claim.instance_id.int")


def _renewal_parameters(renewals: Sequence[Renewal]) -> Mapping[str, object]:
    leases = (to_microseconds(each.lease) for each in renewals)
    return {
        **_keys([each.claim for each in renewals]),
        "leases": dialect.numbers(leases),
        "handed_on": dialect.truths(each.handed_on for each in renewals),
    }


def _elsewhere_parameters(renewals: Sequence[Renewal]) -> Mapping[str, object]:
    return {
        **_renewal_parameters(renewals),
        "workers": dialect.texts(each.worker for each in renewals),
        "steps": dialect.numbers(each.step for each in renewals),
        "progresses": dialect.texts(each.progress for each in renewals),
    }


def _release_parameters(releases: Sequence[Release]) -> Mapping[str, object]:
    delays = (to_microseconds(each.delay) for each in releases)
    return {
        **_keys([each.claim for each in releases]),
        "delays": dialect.numbers(delays),
        "reasons": dialect.texts(each.reason for each in releases),
    }


def _outcome_parameters(outcomes: Sequence[RunOutcome]) -> Mapping[str, object]:
    retries = (to_microseconds(each.retry_in) for each in outcomes)
    return {
        **_keys([each.claim for each in outcomes]),
        "outcomes": dialect.words(each.outcome for each in outcomes),
        "ended": dialect.ids(
            each.claim.instance_id for each in outcomes if each.outcome is not None
        ),
        "started": dialect.times(each.started_at for each in outcomes),
        "retries": dialect.numbers(retries),
        "hung": dialect.truths(each.hung for each in outcomes),
        "errors": dialect.texts(each.error for each in outcomes),
        "next_times": dialect.times(each.next_fire_time for each in outcomes),
        "late": LATE_AFTER,
    }


def _result_parameters(outcomes: Sequence[RunOutcome]) -> Mapping[str, object]:
    results = dialect.texts(each.result for each in outcomes)
    clients = dialect.texts(each.client for each in outcomes)
    return {**_outcome_parameters(outcomes), "results": results, "clients": clients}


def _keys(claims: Sequence[Claim]) -> dict[str, object]:
    return {
        "ids": dialect.ids(each.instance_id for each in claims),
        "attempts": dialect.numbers(each.attempt for each in claims),
    }
