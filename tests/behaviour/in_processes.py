"""What behaviour tests call in other processes: importable there, and quickly."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Never

from go_scheduler import Fail, GiveBack, HandedOn, RetryAfter, current_run

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler import TaskInstance


class Unpicklable(KeyError):
    """An error that cannot be made anew in another process."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


class NeverPickled(Exception):
    """One that cannot even leave its process."""

    def __reduce__(self) -> Never:
        raise TypeError("this one stays here")


def handler(instance: TaskInstance) -> object:
    """Do what the definition says, by its name."""
    do, *_ = str(instance.definition.name).split()
    if do == "block":
        signal.pause()
    elif do == "block-past-sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()
    elif do == "clean-up":
        _clean_up()
    elif do == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif do == "exit":
        os._exit(3)
    elif do == "hand-on":
        return HandedOn()
    elif do == "ask":
        current_run()
    elif do == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    elif do == "async":
        return work()
    elif do == "lambda":
        return lambda: None
    else:
        fail(do, instance)
    return None


def fail(do: str, instance: TaskInstance) -> None:
    """Raise what the definition says, in the first run."""
    if do == "raise":
        raise ValueError("in another process")
    if do == "stops":
        raise Unpicklable("lost", "and gone")
    if do == "stays":
        raise NeverPickled("never seen")
    if do == "fails":
        raise Fail("for good")
    if do == "later" and instance.runs == 1:
        raise RetryAfter(timedelta(0), "not yet")
    if do == "give-back" and instance.id not in _given_back:
        # The attempt does not tell: the node may have given it back before.
        _given_back.add(instance.id)
        raise GiveBack(timedelta(0), "away")


_given_back: set[UUID] = set()
"""What this process has given back: once, so that it comes to an end."""


async def work() -> None:
    """What a handler awaits."""


def pid(instance: TaskInstance) -> HandedOn:
    """Say in which process this is."""
    return HandedOn(worker=str(os.getpid()))


def _clean_up() -> None:
    class Told(BaseException):
        pass

    def tell(*_: object) -> None:
        raise Told

    signal.signal(signal.SIGTERM, tell)
    try:
        signal.pause()
    except Told:
        return
