"""Admission: what a node has claimed is judged, and what it does not run recorded."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from go_scheduler.events import InstanceClaimed, InstanceTakenOver, NoticeGiven
from go_scheduler.events.event import of_instance
from go_scheduler.health import HealthWarnings
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.running.intake import Accepted, Asked, GivenBack, Verdict, judge
from go_scheduler.running.state import NodeState, Part
from go_scheduler.running.withdrawing import Watch, Withdrawing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.outcomes import Decision
    from go_scheduler.running.result_writer import ResultWriter


class Admission(Part):
    """Lets in what is to be called here, and sees to what becomes of the others.

    Args:
        state: What the node's parts share.
        handler: Tells which instances this node can run; None: what runs them is
            elsewhere.
        writer: Takes what is not let in.

    Attributes:
        withdrawing: Lets go of what is edited before it is called.
        notices: Why instances were given back.
    """

    def __init__(
        self, state: NodeState, handler: Handler | None, writer: ResultWriter
    ) -> None:
        super().__init__(state)
        self._handler = handler
        self._writer = writer
        self.withdrawing = Withdrawing(state.held, writer)
        self._per_node = PerNode(state.held)
        self.notices = HealthWarnings()

    def begin(self) -> None:
        """Begin to tell anew, as at each tick of whoever claims."""
        self._events.begin()

    def admit(
        self, instances: Iterable[TaskInstance], *watches: Watch
    ) -> Sequence[HeldRun]:
        """Judge what has been claimed; answer the runs of what is let in.

        Args:
            instances: What has been claimed.
            watches: What was edited since these claims were sent.
        """
        now, asked = self._clock.now(), Asked()
        admitted: list[HeldRun] = []
        held = []
        full: set[UUID] = set()
        for instance in instances:
            run = HeldRun(
                instance,
                expire_after=self._defaults.expire_after,
                timeout=self._defaults.timeout,
            )
            verdict = self._judge(run, now, asked)
            if not isinstance(verdict, Accepted):
                self._turn_away(run, verdict)
                continue
            if instance.definition.max_per_node is None:
                held.append(run)
            elif later := self._per_node.take(run, full):
                self._writer.release(run, later.reason, delay=later.delay)
                continue
            if verdict.again:
                self._events.tell(InstanceTakenOver(**of_instance(instance)))
            admitted.append(run)
        self._held.add(held)
        if self._events.wanted(InstanceClaimed):
            self._tell_claimed(admitted)
        return self.withdrawing.let_in(admitted, watches)

    def admit_again(self, runs: Iterable[HeldRun]) -> Sequence[HeldRun]:
        """Judge runs by what their start has found; let go of those that end here."""
        now, asked = self._clock.now(), Asked()
        admitted = []
        for run in runs:
            verdict = self._judge(run, now, asked)
            if isinstance(verdict, Accepted):
                admitted.append(run)
            else:
                self._turn_away(run, verdict)
                self._held.drop(run)
        return admitted

    def _judge(self, run: HeldRun, now: datetime, asked: Asked) -> Verdict:
        hangs = self._held.hung_runs
        refusal = self._spares.refusal(run.instance) if hangs else None
        return judge(
            run.instance,
            self._handler,
            defaults=self._defaults,
            refusal=refusal,
            now=now,
            asked=asked,
        )

    def _turn_away(self, run: HeldRun, verdict: Decision | GivenBack) -> None:
        if isinstance(verdict, GivenBack):
            self._notice(run.instance, verdict.reason)
            self._writer.release(run, verdict.reason, delay=verdict.delay)
        else:
            self._writer.refuse(run, verdict)

    def _tell_claimed(self, runs: Iterable[HeldRun]) -> None:
        for run in runs:
            ids = of_instance(run.instance)
            self._events.tell(InstanceClaimed(**ids, due_at=run.instance.due_at))

    def _notice(self, instance: TaskInstance, reason: str) -> None:
        """Tell once why this node gives instances back."""
        text = f"{reason}; such instances are given back"
        if self.notices.add(text):
            self._events.tell(
                NoticeGiven(
                    text=text,
                    definition_id=instance.definition.id,
                    instance_id=instance.id,
                )
            )


_DELAY = timedelta(seconds=1)
_MOST_DELAYS = 30


class PerNode:
    """Keeps out what is beyond the ``max_per_node`` of its definition.

    It comes later, and what else is due in its queue before it. The more of a
    definition is kept out in a row, the later each comes: a long backlog is not claimed
    again and again for nothing.

    Args:
        held: The node's runs.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._lock = threading.Lock()
        self._in_a_row: dict[UUID, int] = {}

    def take(self, run: HeldRun, full: set[UUID]) -> GivenBack | None:
        """Hold a run of a limited definition, or say what becomes of it instead.

        Args:
            run: The run; of a definition that has a limit.
            full: The definitions of which no more can be held in this batch; kept here.
        """
        definition = run.instance.definition
        most = definition.max_per_node
        assert most is not None
        # Several threads let in: two must not both see the last place.
        with self._lock:
            if definition.id not in full:
                if self._held.count_of(definition.id) < most:
                    self._held.add([run])
                    self._in_a_row.pop(definition.id, None)
                    return None
                full.add(definition.id)
            refused = self._in_a_row.get(definition.id, 0)
            self._in_a_row[definition.id] = refused + 1
        reason = (
            f"{most} of {definition.name or definition.id} are here already, and no"
            " more may be on one node (max_per_node)"
        )
        return GivenBack(reason, _DELAY * min(refused // most + 1, _MOST_DELAYS))
