"""What the parts of a Redis store have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from go_scheduler.stores.redis.texts import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.clock import Clock
    from go_scheduler.stores.redis.lists import Lists
    from go_scheduler.stores.redis.rows import Reader
    from go_scheduler.stores.redis.server import Server

Value = TypeVar("Value")

AHEAD = 8
"""Of what is fired or claimed ahead of its time, a script does so many: what is due at
that moment waits meanwhile, for the server, which does nothing else, and for Python's
lock, while the answer is read."""
DUE = 128
"""Of what is due, or has run, so many: the more there are, the less each costs, and
the longer the server waits while they are read."""


class RedisCalls:
    """Runs scripts and reads what they answer."""

    clock: Clock | None
    _server: Server
    _reader: Reader
    _lists: Lists

    def _now(self) -> str | None:
        """The text of the time of the clock that was passed; None: the server's."""
        return None if self.clock is None else time_text(self.clock.now())


def parts(values: Sequence[Value], size: int) -> Iterator[Sequence[Value]]:
    """All of them, so many at a time."""
    for first in range(0, len(values), size):
        yield values[first : first + size]
