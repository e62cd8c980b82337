"""The tests of the shop's jobs: time is moved by hand, and nothing waits."""

from datetime import UTC, datetime, timedelta

import pytest
from shop import handlers, report

from go_scheduler import MemoryStore, Scheduler, State
from go_scheduler.testing import ManualClock
from go_scheduler.triggers import preview


def test_a_welcome_is_sent_at_the_second_try(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = ManualClock()
    with Scheduler(handlers, MemoryStore(clock), clock=clock) as scheduler:
        mail = scheduler.enqueue("welcome", to="Ada")
        clock.advance(timedelta(seconds=2))
        ended = scheduler.get_instance(mail.id)
    assert ended.state is State.COMPLETED
    assert ended.runs == 2
    assert capsys.readouterr().out == "welcome, Ada\n"


def test_the_report_comes_at_four_also_when_the_clocks_change() -> None:
    before = datetime(2030, 3, 30, 12, tzinfo=UTC)
    times = [str(each.at) for each in preview(report.definition.trigger, 2, before)]
    assert times == ["2030-03-31 04:00:00+02:00", "2030-04-01 04:00:00+02:00"]
