"""A delivery as it is held here: that its bus fails to hear of it costs no more."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.dispatch.bus import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.dispatch.paced_log import PacedLog


class TakenDelivery(Delivery):
    """One that is told by the log if it cannot be acknowledged: it comes again, then.

    Args:
        delivery: What the bus has delivered.
        log: Told of that.

    Raises:
        Exception: What the bus raises for its body.
    """

    def __init__(self, delivery: Delivery, log: PacedLog) -> None:
        self._delivery = delivery
        self._log = log
        self._body = delivery.body

    @property
    def body(self) -> bytes:
        """The message."""
        return self._body

    @property
    def redelivered(self) -> bool:
        """Whether it may have been delivered before."""
        return self._delivery.redelivered

    def ack(self) -> None:
        """Tell the bus that it is done with."""
        self._tell(self._delivery.ack)

    def reject(self, *, requeue: bool) -> None:
        """Give it back, or have the bus drop it."""
        self._tell(partial(self._delivery.reject, requeue=requeue))

    def _tell(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        # A bus of somebody else's may raise anything.
        except Exception as error:
            text = "the bus does not hear what has become of a message: %s"
            self._log.write(logging.ERROR, text, error, error=error)
