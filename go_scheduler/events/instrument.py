"""An instrument: a listener that reads what nodes have counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from go_scheduler.events.listening import Hears

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from go_scheduler.models import Counts, TaskInstance


class Tallied(Protocol):
    """The counts of a node."""

    def totals(self) -> Sequence[Counts]:
        """The counts since its start."""


class Watched(Protocol):
    """A node, as an instrument sees it."""

    @property
    def stopped(self) -> bool:
        """Whether it has stopped counting."""

    @property
    def tally(self) -> Tallied:
        """Its counts."""

    def health(self) -> Any:
        """Its ``Health``."""


class Put(NamedTuple):
    """What is put into the store by one call.

    Attributes:
        operation: The call's name, such as *schedule* or *enqueue*.
        name: Of the definition; None: it has none, nobody knows, or there are several.
        size: How many are put.
        carried: The trace context that a remote caller, such as one over HTTP, has
            sent; None: there is none.
    """

    operation: str
    name: str | None
    size: int
    carried: str | None


class Instrument(Hears, ABC):
    """A listener that hears few events, and reads counts instead.

    What comes by the thousand costs too much to be told one by one: an instrument reads
    what nodes have counted when somebody asks for it. One of a scheduler's
    ``listeners`` may be one.

    Attributes:
        surrounds: Whether handlers are called within ``around``.
    """

    surrounds = True

    @abstractmethod
    def watch(self, node: Watched) -> None:
        """Look at a node from now on, until it has stopped."""

    def carry(self, put: Put) -> str | None:
        """The trace context that what is put now carries to its handlers.

        It is called once for a call, on whatever thread it is made.

        Returns:
            At most 600 characters of ASCII, which ``trace_context`` of instances then
            is; None: it carries none.
        """
        return put.carried

    @abstractmethod
    def around(self, instance: TaskInstance) -> AbstractContextManager[object]:
        """The context for the call of an instance's handler, here or in a task."""
