"""What every worker can: start, stop, and run until a signal."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from go_scheduler.checks import check_at_least
from go_scheduler.clock import ZERO
from go_scheduler.signals import caught_signals, next_request

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from types import TracebackType

    from go_scheduler.working.life import Life


class LivingWorker:
    """A worker that has one life after another.

    Args:
        life: Makes one.
    """

    def __init__(self, life: Callable[[], Life]) -> None:
        self._new_life = life
        self._lock = threading.Lock()
        self._life: Life | None = None

    def start(self) -> None:
        """Begin to wait for work, on threads of its own; harmless if it does.

        Raises:
            GoSchedulerError: It cannot, such as on a bus that has been closed.
        """
        self._started(_nobody)

    def stop(self, timeout: timedelta | None = None) -> bool:
        """Take no more work, and await what runs and what is still to be told.

        Args:
            timeout: How long to wait before leaving that behind, which then runs again
                elsewhere; None: until all has ended.

        Returns:
            Whether all has ended; true if it was not running.

        Raises:
            NotAllowedError: It had ended: a server does not know who it is, or does
                not let them work.
            GoSchedulerError: It had ended, as it was refused for another reason.
        """
        if timeout is not None:
            check_at_least("timeout", timeout, ZERO)
        with self._lock:
            life, self._life = self._life, None
        if life is None:
            return True
        life.request_stop()
        done = life.join(None if timeout is None else timeout.total_seconds())
        if not done:
            life.leave()
            life.join(None)
        if life.error is not None:
            raise life.error
        return done

    def run(self) -> None:
        """Work until SIGINT, SIGTERM or ``stop()``.

        The first signal awaits the running handlers; a second one leaves them behind.
        Signals are caught on the main thread only, and only while this runs.

        Raises:
            NotAllowedError: A server does not know who asks, or does not let them work.
            GoSchedulerError: It is refused for another reason.
        """
        requests: SimpleQueue[int | None] = SimpleQueue()
        with caught_signals(requests):
            life = self._started(lambda: requests.put(None))
            if next_request(requests) is not None:
                life.request_stop()
                if next_request(requests) is not None:
                    life.leave()
        self.stop()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and wait for what runs."""
        self.stop()

    def _started(self, ended: Callable[[], None]) -> Life:
        with self._lock:
            if self._life is None or self._life.is_over:
                self._life, life = None, self._new_life()
                life.start()
                self._life = life
            self._life.when_over(ended)
            return self._life


def _nobody() -> None:
    """Nobody is told."""
