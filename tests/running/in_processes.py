"""What tests have called in other processes: importable there, and quickly."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Never

if TYPE_CHECKING:
    from collections.abc import Callable


_kept: list[object] = []


class Unpicklable(Exception):
    def __reduce__(self) -> Never:
        raise TypeError("this one stays here")


class MadeOfTwo(Exception):
    """As its arguments are not those of its parent, it cannot be made again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


class NoError(Exception):
    def __reduce__(self) -> tuple[type[int], tuple[()]]:
        return int, ()


class OfHere:
    """Can be made again only in the process that has made it."""

    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return _refuse_elsewhere, (os.getpid(),)


def _refuse_elsewhere(process: int) -> None:
    if os.getpid() != process:
        raise LookupError("not of here")


def process() -> int:
    return os.getpid()


def fail(kind: type[Exception], *args: str) -> Never:
    raise kind(*args)


def make(kind: type) -> object:
    return kind()


def make_function() -> Callable[[], None]:
    return lambda: None


def die(how: str) -> None:
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def block(called: str, go: str) -> int:
    """Say by one pipe that it was called, and wait for the other."""
    with open(called, "w"):
        pass
    with open(go):
        return os.getpid()


def die_with_a_child(file: str) -> None:
    """Leave a process behind that has all the pipes of this one."""
    if (child := os.fork()) == 0:
        signal.alarm(60)
        signal.pause()
    with open(file, "w") as written:
        written.write(str(child))
    os._exit(4)


def keep_open(file: str) -> None:
    """Keep one end of a pipe for as long as this process lives."""
    _kept.append(open(file, "w"))  # noqa: SIM115


def keep_open_and_block(file: str) -> None:
    keep_open(file)
    signal.pause()


def die_at_start(_: object) -> None:
    sys.exit(5)
