"""An instrument: a listener that looks at nodes, where others are told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from go_scheduler.events.listening import Hears

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from go_scheduler.models import Counts, TaskInstance


class Tallied(Protocol):
    """What counts on a node."""

    def totals(self) -> Sequence[Counts]:
        """What was counted since its start."""
        ...


class Watched(Protocol):
    """A node, as an instrument sees it."""

    @property
    def stopped(self) -> bool:
        """Whether it counts nothing more."""
        ...

    @property
    def tally(self) -> Tallied:
        """What it has counted."""
        ...

    def health(self) -> Any:
        """How it is: a ``Health``."""
        ...


class Instrument(Hears, ABC):
    """A listener of a scheduler that hears next to nothing, and looks instead.

    What comes by the thousand costs too much to be told one by one: an instrument reads
    what nodes have counted when somebody asks for it. One of a scheduler's
    ``listeners`` may be one.

    Attributes:
        surrounds: Whether there is anything that handlers are called within.
    """

    surrounds = True

    @abstractmethod
    def watch(self, node: Watched) -> None:
        """Look at a node from now on, until it has stopped."""

    @abstractmethod
    def around(self, instance: TaskInstance) -> AbstractContextManager[object]:
        """What the handler of an instance is called within, here or in a task."""
