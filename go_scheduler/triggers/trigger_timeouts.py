"""Calls triggers that are to be shown, on threads that are abandoned if they hang.

They may be of third parties. The loop that fires them has a timeout of its own.
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
"""The timeout of a call, in seconds."""

_hanging: dict[type, Future[object]] = {}


def describe_with_zone(trigger: Trigger) -> str:
    """When a trigger fires, in words, with its time zone unless that is UTC.

    If its parts are in different zones, all zones are named.

    Raises:
        Exception: It is a third party's, and its description fails.
    """

    def zones(part: Trigger) -> Iterator[str | None]:
        yield zone_of(part)
        for each in part.parts():
            yield from zones(each)

    def describe() -> str:
        names = dict.fromkeys(filter(None, zones(trigger)))
        text = str(trigger.describe())
        return text if {*names} <= {"UTC"} else f"{text} ({', '.join(names)})"

    return ask(trigger, describe)


def ask(trigger: Trigger, call: Callable[[], _T]) -> _T:
    """Call a trigger, which may be a third party's, with a timeout.

    While a trigger hangs, no other trigger of its class is called.

    Args:
        trigger: The trigger that is called.
        call: Calls it.

    Raises:
        InvalidTriggerError: It hangs, or it raised SystemExit or the like.
    """
    if is_own(trigger):
        return call()
    kind = type(trigger)
    before = _hanging.get(kind)
    if before is not None and not before.done():
        raise InvalidTriggerError(f"{name_of(kind)} hangs: it has not answered yet")
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)
        except BaseException as error:
            # SystemExit of a trigger must not look like ours.
            answer.set_exception(InvalidTriggerError(f"it raised {shown(error)}"))

    threading.Thread(target=run, name="go_scheduler trigger", daemon=True).start()
    try:
        return answer.result(PATIENCE)
    except TimeoutError:
        # It has answered just now, or the trigger itself has raised TimeoutError.
        if answer.done():
            return answer.result()
        _hanging[kind] = answer  # type: ignore[assignment]
    raise InvalidTriggerError(
        f"{name_of(kind)} hangs: it did not answer within {PATIENCE:g} s"
    )
