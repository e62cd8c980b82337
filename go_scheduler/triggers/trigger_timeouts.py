"""Foreign triggers are asked on threads that are left behind if they hang.

That is for people who look at triggers; what fires them has a guard of its own.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import is_own, name_of
from go_scheduler.triggers.zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.triggers.base import Trigger

_T = TypeVar("_T")

PATIENCE = 1.0
"""For so many seconds a foreign trigger is waited for."""

_hanging: dict[type, Future[object]] = {}


def described(trigger: Trigger) -> str:
    """When a trigger fires, in words, with its time zone unless that is UTC.

    Several parts of it may be in different zones: then all of them are named.

    Raises:
        Exception: It is a third party's, and does not say.
    """
    return asked(trigger, lambda: _described(trigger))


def _described(trigger: Trigger) -> str:
    zones = dict.fromkeys(filter(None, _zones(trigger)))
    text = str(trigger.describe())
    return text if {*zones} <= {"UTC"} else f"{text} ({', '.join(zones)})"


def _zones(trigger: Trigger) -> Iterator[str | None]:
    yield zone_of(trigger)
    for part in trigger.parts():
        yield from _zones(part)


def asked(trigger: Trigger, question: Callable[[], _T]) -> _T:
    """What a trigger answers, which may be a third party's.

    While one of a class hangs, no other of that class is asked.

    Args:
        trigger: Which.
        question: Asks it.

    Raises:
        InvalidTriggerError: It hangs, or raised what is to end the process.
    """
    if is_own(trigger):
        return question()
    kind = type(trigger)
    before = _hanging.get(kind)
    if before is not None and not before.done():
        raise InvalidTriggerError(f"{name_of(kind)} hangs: it has not answered yet")
    answer: Future[_T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except Exception as error:
            answer.set_exception(error)
        except BaseException as error:
            # SystemExit of a trigger must not look like ours.
            answer.set_exception(InvalidTriggerError(f"it raised {shown(error)}"))

    threading.Thread(target=ask, name="go_scheduler trigger", daemon=True).start()
    try:
        return answer.result(PATIENCE)
    except TimeoutError:
        # It has answered just now, or it is what the trigger itself has raised.
        if answer.done():
            return answer.result()
        _hanging[kind] = answer  # type: ignore[assignment]
    raise InvalidTriggerError(
        f"{name_of(kind)} hangs: it did not answer within {PATIENCE:g} s"
    )
