"""What happens to nodes, their loops and what they depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from logging import DEBUG, ERROR, INFO, WARNING
from uuid import UUID

from go_scheduler.events.event import Event, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(Event):
    """A scheduler was started, as this node.

    Attributes:
        node: The node.
        queues: The queues that it serves; empty: it has no handler.
        max_workers: The most handlers that run at once.
    """

    node: UUID
    queues: tuple[str, ...]
    max_workers: int

    _line = Line(INFO, "node %(node)s starts")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(Event):
    """It has stopped.

    Attributes:
        node: The node.
        clean: Whether everything came back and was recorded.
    """

    node: UUID
    clean: bool

    @property
    def _line(self) -> Line:
        left = "" if self.clean else " and left work behind"
        return Line(INFO, f"node %(node)s has stopped{left}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFailed(Event):
    """A tick of a loop failed; it will be tried again.

    Attributes:
        loop: The loop, by the name that it has in ``health().loops``.
        failures: How many of its ticks have failed in a row.
        error: Why, as text.
        exception: The same, as it was raised.
    """

    loop: str
    failures: int
    error: str
    exception: BaseException = field(repr=False, compare=False)

    @property
    def _line(self) -> Line:
        return Line(
            WARNING if self.failures == 1 else DEBUG,
            "the %(loop)s failed and will try again: %(exception)r",
            {"ticker": self.loop},
            ids=("ticker", "failures"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRecovered(Event):
    """A loop goes on.

    Attributes:
        loop: The loop, by the name that it has in ``health().loops``.
        failures: How many of its ticks had failed in a row.
    """

    loop: str
    failures: int

    _line = Line(INFO, "the %(loop)s goes on after %(failures)d failures")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAway(Event):
    """A loop failed for want of the store, the first to do so.

    Attributes:
        loop: The loop.
        error: Why, as text.
    """

    loop: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreBack(Event):
    """No loop fails for want of the store any more.

    Attributes:
        away: For how long that had been so.
    """

    away: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorFailed(Event):
    """The executor takes no more handlers.

    Attributes:
        error: Why, as text.
        exception: The same, as it was raised.
    """

    error: str
    exception: BaseException = field(repr=False, compare=False)

    _line = Line(
        ERROR,
        "the executor takes no more handlers: %(exception)r",
        # It is not our code.
        with_traceback=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorRecovered(Event):
    """The executor takes handlers again."""

    _line = Line(WARNING, "the executor takes handlers again")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveBroken(Event):
    """More than one run in a hundred began too late here in the last minute.

    Attributes:
        node: The node.
        objective: Its ``lateness_objective``.
        runs: How many runs began.
        late: How many of them were too late.
    """

    node: UUID
    objective: timedelta
    runs: int
    late: int

    _line = Line(
        WARNING,
        "%(late)d of the last minute's %(runs)d runs are more than %(objective)g s"
        " late",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveMet(Event):
    """The last minute's runs began in time again, but for one in a hundred at most.

    Attributes:
        node: The node.
        objective: Its ``lateness_objective``.
        after: After how long.
    """

    node: UUID
    objective: timedelta
    after: timedelta

    _line = Line(
        INFO, "runs are at most %(objective)g s late again, after %(after).0f s"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUnserved(Event):
    """Something is due in a queue that no node serves, and has not for a minute.

    Attributes:
        queue: The queue.
        text: The same for a person to read, with the queues that are served.
    """

    queue: str
    text: str

    _line = Line(WARNING, "%(text)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeGiven(Event):
    """Something is as nobody may have meant it; each is told once.

    Attributes:
        text: What, for a person to read.
        is_warning: Whether somebody should look into it; if it lasts, it is among the
            warnings of ``health()``.
        definition_id: The definition with which it was noticed, if it was one.
        instance_id: And the instance.
    """

    text: str
    is_warning: bool = True
    definition_id: UUID | None = None
    instance_id: UUID | None = None

    @property
    def _line(self) -> Line:
        return Line(WARNING if self.is_warning else INFO, "%(text)s")
