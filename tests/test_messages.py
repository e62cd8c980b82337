"""What is refused is refused with what to write."""

from __future__ import annotations

from datetime import UTC
from typing import Any
from uuid import UUID

import pytest

import go_scheduler
from go_scheduler import (
    ConfigurationError,
    HandlerRegistry,
    IntervalTrigger,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.testing.builders import HOUR
from go_scheduler.testing.clock import START
from go_scheduler.triggers import parse_phrase
from tests.case_tables import table

NAMES = {name: getattr(go_scheduler, name) for name in go_scheduler.__all__}
NAMES |= {"HOUR": HOUR, "START": START, "UTC": UTC, "parse_phrase": parse_phrase}
ID = UUID(int=7)
HOURLY = IntervalTrigger(hours=1)
SCHEDULER: Any = Scheduler(HandlerRegistry())
HANDLERS: Any = HandlerRegistry()


@SCHEDULER.task("send")  # type: ignore[untyped-decorator]
def send(order: int) -> None: ...


@SCHEDULER.task("more")  # type: ignore[untyped-decorator]
def more(order: int, **others: int) -> None: ...


def report() -> None: ...


def defined(**given: Any) -> TaskDefinition:
    return TaskDefinition(**({"trigger": HOURLY} | given))


def scheduler(**given: Any) -> Scheduler:
    return Scheduler(print, **given)


@pytest.mark.parametrize(("wrong", "answer"), table("messages"))
def test_the_refusal_says_what_to_write(wrong: str, answer: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        eval(wrong, NAMES | globals())
    assert str(caught.value) == answer


def test_a_handler_that_takes_no_instance_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Scheduler(report)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "the handler is called with one argument, the instance, and takes none:"
        f" too many positional arguments; {report!r}"
    )
