"""A message on its way to the broker, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from go_scheduler.errors import BusUnavailableError

# RabbitMQ closes the connection of whoever says more, at about ten years.
_LONGEST_EXPIRY = timedelta(days=3650)


@dataclass(slots=True, eq=False)
class Posting:
    """A message to be published.

    Attributes:
        queue: Where to.
        body: The message.
        expires: When the broker may drop it.
        keep: Whether it needs a queue.
        explain: Says of an error that the bus cannot be used.
        refused: Why its queue could not be declared, if it could not.
        returned: Whether the broker had no queue for it, so that it is sent again.
        sent: Whether it may have reached the broker.
        outcome: Done once the broker has it.
    """

    queue: str
    body: bytes
    expires: timedelta | None
    keep: bool
    explain: Callable[[BaseException], BusUnavailableError]
    refused: Exception | None = None
    returned: bool = False
    sent: bool = False
    outcome: Future[None] = field(default_factory=Future)

    def properties(self) -> dict[str, object]:
        """What goes with it."""
        found: dict[str, object] = {"delivery_mode": 2 if self.keep else 1}
        if self.expires is not None and self.expires < _LONGEST_EXPIRY:
            found["expiration"] = str(int(self.expires.total_seconds() * 1000))
        return found

    def is_awaited(self) -> bool:
        """Whether anybody waits for it; who does is from then on told what it is."""
        outcome = self.outcome
        if outcome.running():
            return True
        return not outcome.done() and outcome.set_running_or_notify_cancel()

    def done(self) -> None:
        """The broker has it."""
        with suppress(InvalidStateError):
            self.outcome.set_result(None)

    def refused_for(self, error: Exception) -> None:
        """The broker does not have it."""
        self.sent = False
        self.failed(error)

    def failed(self, error: Exception) -> None:
        """The broker does not have it, or nobody knows."""
        # One of its own: the same error may be told of many.
        raised = self.explain(error)
        raised.unsent = not self.sent
        # Nobody may wait any more.
        with suppress(InvalidStateError):
            self.outcome.set_exception(raised)
