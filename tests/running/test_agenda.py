"""An agenda: who is due first comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.running.held import HeldRun
from go_scheduler.running.starter import Agenda
from go_scheduler.testing.builders import EXPIRE_AFTER, definition
from go_scheduler.testing.clock import START
from tests.conftest import instance, seconds

if TYPE_CHECKING:
    from datetime import datetime


def run(due_at: datetime) -> HeldRun:
    return HeldRun(instance(due_at=due_at), expire_after=EXPIRE_AFTER)


@pytest.fixture
def agenda() -> Agenda:
    return Agenda()


def test_those_that_are_due_are_taken_out_earliest_first(agenda: Agenda) -> None:
    runs = [run(START + seconds(number)) for number in range(5)]
    agenda.add(reversed(runs))
    assert (len(agenda), agenda.first) == (5, START)
    assert agenda.take(START + seconds(2)) == runs[:3]
    assert agenda.take(START + seconds(2)) == []
    assert (len(agenda), agenda.first) == (2, START + seconds(3))


def test_of_those_that_are_due_at_once_the_first_to_come_is_the_first(
    agenda: Agenda,
) -> None:
    runs = [run(START) for _ in range(5)]
    agenda.add(runs)
    assert agenda.take(START, 2) == runs[:2]
    assert agenda.take(START) == runs[2:]
    assert (len(agenda), agenda.first) == (0, None)


def test_it_says_whether_something_is_due_before_all_that_it_had(
    agenda: Agenda,
) -> None:
    assert not agenda.add([])
    assert agenda.add([run(START + seconds(5)), run(START + seconds(9))])
    assert not agenda.add([run(START + seconds(5)), run(START + seconds(6))])
    assert agenda.add([run(START + seconds(7)), run(START + seconds(4))])


def test_of_those_that_are_due_at_once_a_smaller_priority_is_the_first(
    agenda: Agenda,
) -> None:
    runs = [
        HeldRun(
            instance(replace(definition(START), priority=priority), due_at=START),
            expire_after=EXPIRE_AFTER,
        )
        for priority in (3, 0, 1)
    ]
    agenda.add(runs)
    taken = agenda.take(START)
    assert [each.instance.definition.priority for each in taken] == [0, 1, 3]
