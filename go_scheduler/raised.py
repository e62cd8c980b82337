"""What a handler raises to say itself what becomes of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.checks import check_at_least
from go_scheduler.clock import ZERO
from go_scheduler.instead import write_instead

if TYPE_CHECKING:
    from datetime import timedelta


@write_instead("RetryAfter(timedelta(minutes=10), 'not there yet')")
class RetryAfter(Exception):
    """Raised by a handler that is to be run again, after a time of its choosing.

    It counts as a run: after ``max_attempts`` of them the instance has *failed*.

    ```python
    def handler(instance: TaskInstance) -> None:
        if not (report := find_report(instance)):
            raise RetryAfter(timedelta(minutes=10), "the report is not there yet")
    ```

    Attributes:
        delay: After how long it is run again.
        reason: Why, for a person to read.

    Raises:
        ConfigurationError: ``delay`` is not a timedelta of zero or more.
    """

    def __init__(self, delay: timedelta, reason: str | None = None) -> None:
        check_at_least("delay", delay, ZERO)
        super().__init__(delay, reason)
        self.delay = delay
        self.reason = reason

    def __str__(self) -> str:
        why = "" if self.reason is None else f": {self.reason}"
        return f"to be run again in {self.delay}{why}"


@write_instead("GiveBack(timedelta(seconds=5), 'the printer is away')")
class GiveBack(Exception):
    """Raised by a handler that has not begun anything, and cannot now.

    The instance is given back for a while, for any node to claim after it. It counts as
    no run: nothing has failed, ``retry`` has no part in it, and there is no end to it.
    If somebody has asked it to stop, it is cancelled.

    ```python
    def handler(instance: TaskInstance) -> None:
        if not printer.is_up():
            raise GiveBack(timedelta(seconds=5), "the printer is away")
    ```

    Attributes:
        delay: After how long it may be claimed again.
        reason: Why, for a person to read.

    Raises:
        ConfigurationError: ``delay`` is not a timedelta of zero or more.
    """

    def __init__(self, delay: timedelta, reason: str | None = None) -> None:
        check_at_least("delay", delay, ZERO)
        super().__init__(delay, reason)
        self.delay = delay
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "its handler cannot begin it now"


class Fail(Exception):
    """Raised by a handler whose instance is to fail for good, without another run.

    ```python
    def handler(instance: TaskInstance) -> None:
        if instance.metadata["customer"] not in customers:
            raise Fail("there is no such customer")
    ```
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
