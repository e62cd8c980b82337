"""Admission: what a node has claimed is judged, and what it does not run recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.events import InstanceClaimed, InstanceTakenOver, NoticeGiven
from go_scheduler.events.event import of_instance
from go_scheduler.health import HealthWarnings
from go_scheduler.running.capacity import PerNode
from go_scheduler.running.held import HeldRun
from go_scheduler.running.intake import Accepted, Asked, GivenBack, Refused, judge
from go_scheduler.running.withdrawing import Withdrawing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.intake import Verdict
    from go_scheduler.running.result_writer import ResultWriter
    from go_scheduler.running.state import NodeState
    from go_scheduler.running.withdrawing import Watch


class Admission:
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
        self._handler = handler
        self._clock = state.clock
        self._held = state.held
        self._spares = state.spares
        self._defaults = state.defaults
        self._writer = writer
        self.withdrawing = Withdrawing(state.held, writer)
        self._per_node = PerNode(state.held)
        self.notices = HealthWarnings()
        self._events = state.events.teller("running", bounded=True)

    def begin(self) -> None:
        """Begin to tell anew, as at each tick of whoever claims."""
        self._events.begin()

    def watch(self) -> Watch:
        """Note from now on what is edited; called before a claim is sent."""
        return self.withdrawing.watch()

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

    def _turn_away(self, run: HeldRun, verdict: Refused | GivenBack) -> None:
        if isinstance(verdict, Refused):
            self._writer.refuse(run, verdict.decision)
        else:
            self._notice(run.instance, verdict.reason)
            self._writer.release(run, verdict.reason, delay=verdict.delay)

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
