"""Whoever is used to other schedulers is told what to write here."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    TaskDefinition,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN = {
    each.__name__: each
    for each in (
        CronTrigger,
        DelayTrigger,
        ExecuteOnceTrigger,
        IntervalTrigger,
        TaskDefinition,
        datetime,
        timedelta,
    )
}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: TaskDefinition(IntervalTrigger(timedelta(1))),  # type: ignore[call-arg]
        lambda: TaskDefinition(),  # type: ignore[call-arg]
        lambda: IntervalTrigger(seconds=60),  # type: ignore[call-arg]
        lambda: DelayTrigger(minutes=5),  # type: ignore[call-arg]
        lambda: CronTrigger(hour=9),  # type: ignore[call-arg]
        lambda: ExecuteOnceTrigger(run_date="2030-01-01"),  # type: ignore[call-arg]
    ],
)
def test_arguments_of_other_schedulers_are_answered_by_an_example(
    wrong: Callable[[], object],
) -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        wrong()
    [note] = caught.value.__notes__
    example = note.removeprefix("Write, for example: ")
    assert example != note
    assert isinstance(eval(example, {**KNOWN, "UTC": UTC}), tuple(KNOWN.values()))


def test_what_a_class_takes_is_still_to_be_seen() -> None:
    assert [*inspect.signature(IntervalTrigger).parameters][:2] == ["every", "anchor"]
