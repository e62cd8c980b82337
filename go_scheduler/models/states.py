"""Where definitions and instances stand, and what requests about them come to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What became of an instance in the end."""

    COMPLETED = "completed"
    """Its handler returned."""
    FAILED = "failed"
    """Its last run failed, and its retry policy allows no more."""
    CANCELLED = "cancelled"
    """It will not run: somebody cancelled it or deleted its definition."""
    SKIPPED = "skipped"
    """It will not run, by a policy: ``skipped`` says why."""


class State(StrEnum):
    """Where an instance stands."""

    PENDING = "pending"
    """No node has it: it is not due yet, or waits for a node, for its next run, or for
    another instance to end."""
    CLAIMED = "claimed"
    """A node has it, and has not called its handler."""
    RUNNING = "running"
    """Its handler is about to be called, runs, or ran where its node has died."""
    CANCELLING = "cancelling"
    """Likewise, and the run has been asked to stop: somebody has cancelled it, or
    another instance takes its place."""
    COMPLETED = "completed"
    """It has ended: its handler returned."""
    FAILED = "failed"
    """It has ended: its last run failed, and its retry policy allows no more."""
    CANCELLED = "cancelled"
    """It has ended: somebody cancelled it or deleted its definition."""
    SKIPPED = "skipped"
    """It has ended: it will not run, by a policy; ``skipped`` says why."""


RUNS = (State.RUNNING, State.CANCELLING)
"""Those of an instance that runs."""
WAITING = (State.CLAIMED, State.PENDING)
"""Those of an instance that has not ended and does not run."""
OPEN = (*RUNS, *WAITING)
"""Those of an instance that has not ended, the most urgent first."""


class DefinitionState(StrEnum):
    """Where a definition stands."""

    ACTIVE = "active"
    """It has a fire time to come, waits for a run to end, or fires on demand."""
    PAUSED = "paused"
    """Nothing of it starts until it is resumed."""
    COMPLETED = "completed"
    """Each fire time has its instance, paused or not. The last may still be to run, as
    instances are made shortly before they are due; ``list_instances`` shows it."""


class Cancelled(StrEnum):
    """What a request to cancel came to."""

    CANCELLED = "cancelled"
    """It will not run."""
    REQUESTED = "requested"
    """It runs, or is about to: its node will be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What the delete of a definition came to.

    Attributes:
        running: How many of its instances had been recorded as started. They run, or
            are about to, in this process or another; their results are dropped.
    """

    running: int


class Extension(StrEnum):
    """The answer to a run that asks for more time."""

    GO_ON = "go on"
    """It has the time."""
    STOP = "stop"
    """It has the time, and somebody has asked it to stop."""
    LOST = "lost"
    """It has lost its claim: it runs elsewhere by now, or the instance is over."""
