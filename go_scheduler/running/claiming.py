"""Claiming: a node's claims and starts, and how well the store answers them."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.errors import (
    ConflictError,
    QueueFullError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.stores.messages import Release
from go_scheduler.ticking.retry_later import write_in_halves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.keeper import Contact
    from go_scheduler.running.takeover import Unanswered
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer, Claim, Claimant
    from go_scheduler.ticking.ticker import Pace

LONGEST_BACKOFF = timedelta(seconds=1)
"""Instances that are due when the store comes back have waited long enough."""


class Starts(NamedTuple):
    """What came of starting a batch; what is in none of the three is lost.

    Attributes:
        done: The instances that were started, or parked, by their claims.
        busy: The ids of those that another transaction had locked.
        failed: The errors of those that failed alone, by their ids.
    """

    done: Mapping[Claim, TaskInstance]
    busy: Set[UUID]
    failed: Mapping[UUID, Exception]


class Claiming:
    """Claims and starts instances in the name of one node.

    Args:
        store: Where they are.
        clock: Measures how long it takes to answer.
        claimant: The node.
        contact: Told of every claim that is answered.
        pace: Told how long the answers took.
        unanswered: Told of every claim that is not answered.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        claimant: Claimant,
        *,
        contact: Contact,
        pace: Pace,
        unanswered: Unanswered,
    ) -> None:
        self._store = store
        self._clock = clock
        self._claimant = claimant
        self.contact = contact
        self.pace = pace
        self.unanswered = unanswered
        self.settling = store.settling

    def claim(
        self,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        """Claim as ``Store.claim_instances`` does."""
        sent = self._clock.elapsed()
        deadline = self._clock.now() + self._claimant.lease / 3
        with self.noting():
            instances = self._store.claim_instances(
                self._claimant,
                ahead=ahead,
                lead=lead,
                limit=limit,
                lapsed=lapsed,
                deadline=deadline,
            )
        self.contact.made()
        self.pace.took(self._clock.elapsed() - sent)
        return instances

    def release(self, claims: Sequence[Claim]) -> None:
        """Give back what was not called."""
        self._store.release_instances([Release(claim=each) for each in claims])

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note that what is claimed meanwhile may not be answered."""
        try:
            yield
        except (ConflictError, QueueFullError, TaskDefinitionNotFoundError):
            raise
        except BaseException:
            self.unanswered.note()
            raise

    def start(self, claims: Sequence[Claim]) -> Starts:
        """Record the starts of claimed instances, each that can be."""
        failed: dict[UUID, Exception] = {}

        def write(some: Sequence[Claim]) -> Answer[Sequence[TaskInstance]]:
            return self._store.start_instances(self._claimant, some)

        def fail(claim: Claim, error: Exception) -> None:
            failed[claim.instance_id] = error

        sent = self._clock.elapsed()
        answers = write_in_halves(claims, write, fail)
        if answers:
            self.pace.took(self._clock.elapsed() - sent)
        busy = set().union(*(answer.busy for answer in answers))
        started = {
            (instance.id, instance.attempt): instance
            for answer in answers
            for instance in answer.done
        }
        done = {
            claim: started[key]
            for claim in claims
            if (key := (claim.instance_id, claim.attempt)) in started
        }
        return Starts(done, busy, failed)
