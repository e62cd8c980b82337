"""Hints: how a node learns at once of what another process has put into its store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from enum import Flag, auto
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

SOON = timedelta(seconds=2)
"""What is due later than this when it is put is found in time without a hint."""

SOON_AFTER_ALL = timedelta(minutes=1)
"""The same of what may commit only so much later: a transaction of the user's."""


def is_any_soon(
    times: Iterable[datetime | None], now: datetime, *, late: bool = False
) -> bool:
    """Whether anything of these times needs a hint to be found in time.

    Args:
        times: When it is due.
        now: When it is put.
        late: Whether others may see it only much later.
    """
    until = now + (SOON_AFTER_ALL if late else SOON)
    return any(each is not None and each <= until for each in times)


class News(Flag):
    """What there may be something new of."""

    NOTHING = 0
    DEFINITIONS = auto()
    INSTANCES = auto()
    ANYTHING = DEFINITIONS | INSTANCES


class Hints(ABC):
    """Tells one node that there may be something new in its store.

    Nothing depends on it. A hint may be lost, and one may come though there is nothing
    new: the node looks by itself as well, only later.

    Attributes:
        blind: For how long after a hint there may be more that no further hint tells
            of.
    """

    blind: timedelta = ZERO

    @abstractmethod
    def wait(self) -> News:
        """Wait for the next hint, in the one thread that calls this.

        Returns:
            What there may be something new of; of nothing once it has been closed.

        Raises:
            StoreUnavailableError: Nothing is heard of; a further call tries again.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of what it takes, end a wait and let no other begin; returns at once.

        Harmless if it is closed.
        """
