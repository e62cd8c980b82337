"""Testing a schedule: a month of it in a moment, without threads and without waiting.

``pytest examples/testing_your_schedule.py`` runs the tests. As a script it runs them
too. The run that fails is logged, and it prints::

    test_invoices_go_out_on_the_first_of_the_month: passed
    test_an_invoice_that_fails_is_sent_again: passed
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from go_scheduler import (
    CronTrigger,
    MemoryStore,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.testing import ManualClock

HOUR = timedelta(hours=1)
INVOICES = TaskDefinition(
    trigger=CronTrigger("0 8 1 * *", timezone="UTC"),
    expire_after=timedelta(hours=2),
)


def scheduler_for(
    handler: Callable[[TaskInstance], None], clock: ManualClock
) -> Scheduler:
    """One that goes by the clock; with wide windows its loops take few turns."""
    return Scheduler(
        handler,
        MemoryStore(clock),
        clock=clock,
        schedule_window=HOUR,
        runner_window=HOUR,
        cleanup_window=HOUR,
        lease=HOUR,
    )


def test_invoices_go_out_on_the_first_of_the_month() -> None:
    clock = ManualClock(datetime(2030, 1, 15, tzinfo=UTC))
    sent: list[datetime] = []

    def send(instance: TaskInstance) -> None:
        sent.append(clock.now())

    with scheduler_for(send, clock) as scheduler:
        scheduler.schedule(INVOICES)
        clock.advance(timedelta(days=60))
    assert sent == [
        datetime(2030, 2, 1, 8, tzinfo=UTC),
        datetime(2030, 3, 1, 8, tzinfo=UTC),
    ]


def test_an_invoice_that_fails_is_sent_again() -> None:
    clock = ManualClock(datetime(2030, 1, 31, tzinfo=UTC))
    attempts: list[datetime] = []

    def send(instance: TaskInstance) -> None:
        attempts.append(clock.now())
        if len(attempts) == 1:
            raise ConnectionError("the mail server is away")

    with scheduler_for(send, clock) as scheduler:
        scheduler.schedule(INVOICES)
        clock.advance(timedelta(days=2))
    first, second = attempts
    assert second - first == INVOICES.expire_after


if __name__ == "__main__":
    for test in (
        test_invoices_go_out_on_the_first_of_the_month,
        test_an_invoice_that_fails_is_sent_again,
    ):
        test()
        print(f"{test.__name__}: passed")
