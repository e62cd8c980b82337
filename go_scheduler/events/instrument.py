"""An instrument: a listener that looks at nodes, where others are told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from go_scheduler.events.listening import Hears

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from go_scheduler.models import Counts, TaskInstance


class Tallied(Protocol):
    """What counts on a node."""

    def totals(self) -> Sequence[Counts]:
        """What was counted since its start."""


class Watched(Protocol):
    """A node, as an instrument sees it."""

    @property
    def stopped(self) -> bool:
        """Whether it counts nothing more."""

    @property
    def tally(self) -> Tallied:
        """What it has counted."""

    def health(self) -> Any:
        """How it is: a ``Health``."""


class Put(NamedTuple):
    """What is put into the store by one call.

    Attributes:
        operation: The call's name, such as *schedule* or *enqueue*.
        name: Of the definition; None: it has none, nobody knows, or there are several.
        size: How many are put.
        carried: The context of the trace in which a caller from elsewhere, such as over
            HTTP, has asked for it; None: there is none.
    """

    operation: str
    name: str | None
    size: int
    carried: str | None


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

    def carry(self, put: Put) -> str | None:
        """The context of a trace that what is put now carries to its handlers.

        It is called once for a call, on whatever thread it is made.

        Returns:
            At most 600 characters of ASCII, which ``trace_context`` of instances then
            is; None: it carries none.
        """
        return put.carried

    @abstractmethod
    def around(self, instance: TaskInstance) -> AbstractContextManager[object]:
        """What the handler of an instance is called within, here or in a task."""
