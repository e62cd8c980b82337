"""Which runs would wait for others, or be skipped for them, by `overlap` and `lock`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.stores.slots import fate_of, overlap_of, slot_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from go_scheduler.models import TaskDefinition


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One run of a definition.

    Attributes:
        id: Made up.
        of: The place of its definition among all.
        fire_time: Its trigger's time.
        at: When it is due.
        length: How long it runs.
        start: When it begins; None: it is skipped, or has not begun.
    """

    id: UUID
    of: int
    fire_time: datetime
    at: datetime
    length: timedelta
    start: datetime | None = None

    @property
    def end(self) -> datetime:
        """When it has ended, if it began when it was due or has begun."""
        return (self.start or self.at) + self.length


@dataclass(slots=True)
class _Slot:
    """One at a time has it, and the others wait in the order in which they came."""

    holder: Run | None = None
    waiting: deque[Run] = field(default_factory=deque)

    def go_on(self, until: datetime | None) -> None:
        """Let those begin whose turn comes up to an instant; None: all."""
        while self.holder is not None and (until is None or self.holder.end <= until):
            ended = self.holder.end
            self.holder = self.waiting.popleft() if self.waiting else None
            if self.holder is not None:
                self.holder.start = max(ended, self.holder.at)


def take_turns(runs: Iterable[Run], definitions: Sequence[TaskDefinition]) -> None:
    """Have each run begin, or be skipped, as its definition says.

    One that is asked to stop for another's sake is taken to stop at once.

    Args:
        runs: In the order in which they are due.
        definitions: Those that they are of.
    """
    names = [slot_of(each, fired=True) for each in definitions]
    slots: dict[str, _Slot] = {}
    for run in runs:
        name = names[run.of]
        if name is None:
            run.start = run.at
            continue
        slot = slots.setdefault(name, _Slot())
        slot.go_on(run.at)
        if slot.holder is None:
            slot.holder, run.start = run, run.at
        else:
            _come_second(run, slot, slot.holder, definitions[run.of])
    for slot in slots.values():
        slot.go_on(None)


def _come_second(
    run: Run, slot: _Slot, holder: Run, definition: TaskDefinition
) -> None:
    """Decide on what is due while another one has the slot."""
    overlap = overlap_of(definition, fired=True)
    if overlap is None:
        slot.waiting.append(run)
        return
    waiting = [each.id for each in slot.waiting if each.of == run.of]
    fate = fate_of(overlap, runs=holder.of == run.of, waiting=waiting)
    if fate.reason is not None:
        return
    slot.waiting = deque(each for each in slot.waiting if each.id not in fate.replaced)
    slot.waiting.append(run)
    if fate.stops:
        holder.length = run.at - (holder.start or run.at)
        slot.go_on(run.at)
