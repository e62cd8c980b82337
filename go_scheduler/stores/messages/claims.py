"""What a node says of what it claims: whose it is, how long, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from go_scheduler.clock import ZERO
from go_scheduler.models import Outcome, Stage, TaskInstance
from go_scheduler.models.stage import step_of
from go_scheduler.models.trusted import trusted

_COMPLETED = Outcome.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A node, as far as a store needs to know it.

    Attributes:
        node: The node's id, fresh for every start.
        queues: The queues it serves, each once.
        lease: How long a claim holds unless renewed.
        expire_after: For definitions that have none of their own.
    """

    node: UUID
    queues: tuple[str, ...]
    lease: timedelta
    expire_after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A node's right to an instance: what every write about a run must show.

    Attributes:
        instance_id: The instance.
        attempt: The attempt it was claimed as.
    """

    instance_id: UUID
    attempt: int

    @classmethod
    def of(cls, instance: TaskInstance) -> Claim:
        """The claim under which somebody has got an instance."""
        return _claim(instance_id=instance.id, attempt=instance.attempt)


_claim = trusted(Claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A claim that is to hold longer.

    Attributes:
        claim: The claim.
        lease: How long from the store's time it is to hold; more than zero.
        handed_on: Whether its run is handed on: from now on it is kept from outside of
            the node that called the handler.
        worker: With ``handed_on``, who has it from now on, in at most 200 characters;
            None: as it was.
        stage: With ``handed_on``, how far it has come on a bus; None: nothing is said
            of that.
        progress: What is told of how far it has come, as JSON text of at most 64 KiB;
            None: as it was.
    """

    claim: Claim
    lease: timedelta
    handed_on: bool = False
    worker: str | None = None
    stage: Stage | None = None
    progress: str | None = None

    @property
    def step(self) -> int:
        """Its stage as a number, for stores to compare: 0 for none, 1 for the first."""
        return step_of(self.stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A claim given back without its handler having been called.

    Attributes:
        claim: The claim.
        delay: How long from the store's time nobody should claim it; zero: as it was.
        reason: Why, for a person to read; None: nobody says.
    """

    claim: Claim
    delay: timedelta = ZERO
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The end of one run, to be recorded.

    Attributes:
        claim: The claim it ran under.
        started_at: When its handler was called; None if it was not.
        outcome: The instance's end; None: it is to run again.
        retry_in: How long from the store's time it is due again; used without an
            outcome.
        hung: Whether the run was presumed hung.
        error: What the handler raised, for a person to read; or why it is skipped, if
            that is the ``outcome``.
        next_fire_time: When its definition fires next, if its trigger waits; None:
            never.
        has_slot: Whether it may have a slot. A store need not look for one of a run
            that started when its definition had neither overlap nor lock.
        result: With the outcome *completed*, what came of it, as JSON text of at most
            64 KiB; None: nothing is said of it.
        client: What whoever ran it elsewhere says of that run, as JSON text; None:
            nothing, and what has been said before stays.
    """

    claim: Claim
    started_at: datetime | None = None
    outcome: Outcome | None = None
    retry_in: timedelta = ZERO
    hung: bool = False
    error: str | None = None
    next_fire_time: datetime | None = None
    has_slot: bool = True
    result: str | None = None
    client: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the end of the run is kept: it was called, and did not succeed."""
        return self.started_at is not None and self.outcome is not _COMPLETED
