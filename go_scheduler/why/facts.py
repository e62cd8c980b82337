"""The facts by which the question why is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.firing.latest import latest_fire_time
from go_scheduler.formatting import clock_text
from go_scheduler.models import NodeInfo, TaskDefinition, TaskInstance
from go_scheduler.triggers.base import next_fire_time_of
from go_scheduler.triggers.previews import PreviewedTime, preview
from go_scheduler.triggers.times import MICROSECOND
from go_scheduler.triggers.trigger_timeouts import ask
from go_scheduler.triggers.zones import load_zone, zone_of
from go_scheduler.why.answer import Why

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from go_scheduler.triggers.base import Trigger
    from go_scheduler.why.answer import Because

_T = TypeVar("_T")
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_FIRST_STEP = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)


class Obstacle(StrEnum):
    """What keeps all nodes from running something."""

    NO_NODES = "no nodes"
    QUEUE_UNSERVED = "queue unserved"
    NAME_UNKNOWN = "name unknown"


def obstacle_of(
    takers: Sequence[NodeInfo], queue: str, name: str | None
) -> Obstacle | None:
    """Why no such node would run a definition in this queue; None: one would."""
    if not takers:
        return Obstacle.NO_NODES
    serving = [each for each in takers if each.serves(queue)]
    if not serving:
        return Obstacle.QUEUE_UNSERVED
    if not any(each.knows(name) for each in serving):
        return Obstacle.NAME_UNKNOWN
    return None


def of_name(name: str | None) -> str:
    """What has a handler by this name, as text."""
    return "definitions without a name" if name is None else repr(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a store knows of a definition around an instant.

    Attributes:
        definition: The definition, as it is now.
        at: The instant.
        now: The store's time.
        instances: Some of its instances, the most telling first.
        nodes: The nodes of the last hour.
        holder: The instance that parked instances wait for, of any definition; None:
            their slot is free.
        retention: How long ended instances are kept; None: it is not known.
        waiting: How many of its instances wait, up to ``max_queue``; None: it has none.
    """

    definition: TaskDefinition
    at: datetime
    now: datetime
    instances: Sequence[TaskInstance]
    nodes: Sequence[NodeInfo]
    holder: TaskInstance | None = None
    retention: timedelta | None = None
    waiting: int | None = None

    def times(self, at: datetime | None) -> str:
        """A time in the zone of the schedule, and in UTC."""
        # A row that someone has changed by hand may lack it.
        if at is None:
            return "an unknown time"
        utc = f"{clock_text(at.astimezone(UTC))} UTC"
        zone = zone_of(self.definition.trigger) or "UTC"
        if zone == "UTC":
            return utc
        return f"{clock_text(at.astimezone(load_zone(zone)))} {zone} ({utc})"

    @property
    def takers(self) -> Sequence[NodeInfo]:
        """The nodes that claim what is due."""
        return [each for each in self.nodes if each.takes_on]

    def answer(
        self,
        because: Because,
        text: str,
        instance: TaskInstance | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        reason: str | None = None,
    ) -> Why:
        """The answer, with the node that has the instance it is about."""
        return Why(
            definition_id=self.definition.id,
            at=self.at,
            because=because,
            text=text,
            instance=instance,
            node=None if instance is None else self.node(instance.claimed_by),
            since=since,
            until=until,
            reason=reason,
        )

    def node(self, id: UUID | None) -> NodeInfo | None:
        """A node, if it is known."""
        return next((each for each in self.nodes if each.id == id), None)

    def is_then(self, at: datetime | None) -> bool:
        """Whether a time is the instant of the question, except for its fraction."""
        if at is None or self.at.microsecond:
            return at == self.at
        return self.at <= at < self.at + _SECOND

    def fire_time(self) -> datetime | None:
        """The fire time at the instant of the question; None: the schedule has none."""
        found = self.next_after(self.at - MICROSECOND)
        return found if self.is_then(found) else None

    def nearest(self) -> Sequence[PreviewedTime]:
        """The fire time before the instant, and the one after it."""
        found = (self._before(), self.next_after(self.at))
        times = [each - MICROSECOND for each in found if each is not None]
        return self._asked(lambda it: [preview(it, 1, each)[0] for each in times]) or ()

    def next_after(self, after: datetime) -> datetime | None:
        """The next fire time after an instant; None: there is none, or unknown."""
        return self._asked(lambda trigger: next_fire_time_of(trigger, after))

    def _before(self) -> datetime | None:
        """The latest fire time before the instant, however long ago."""
        found, step = None, _FIRST_STEP
        while found is None or found >= self.at:
            if step >= self.at - _BEGINNING:
                return None
            found = self.next_after(self.at - step)
            step *= 2
        low, until = found, self.at - MICROSECOND
        return self._asked(lambda it: latest_fire_time(it, low, until))

    def _asked(self, question: Callable[[Trigger], _T]) -> _T | None:
        """The answer of the trigger; None: it fails, which must not fail the rest."""
        trigger = self.definition.trigger
        try:
            return ask(trigger, lambda: question(trigger))
        except Exception:
            return None
