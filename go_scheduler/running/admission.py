"""Admission: what a node has claimed is judged, and what it does not run recorded."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING

from go_scheduler.events.event import of_instance
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.events.health_warnings import HealthWarnings
from go_scheduler.events.instance_events import InstanceClaimed, InstanceTakenOver
from go_scheduler.events.node_events import NoticeGiven
from go_scheduler.running.held import HeldRun
from go_scheduler.running.intake import Accepted, Asked, GivenBack, Refused, judge
from go_scheduler.running.withdrawing import Withdrawing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.calling.workers import Spares
    from go_scheduler.running.defaults import Defaults
    from go_scheduler.running.held import Held
    from go_scheduler.running.intake import Verdict
    from go_scheduler.running.recorder import Recorder
    from go_scheduler.running.withdrawing import Watch

_STEP = timedelta(seconds=1)
_MOST_STEPS = 30


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
        self._lock = Lock()
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
        return GivenBack(reason, _STEP * min(refused // most + 1, _MOST_STEPS))


class Admission:
    """Lets in what is to be called here, and sees to what becomes of the others.

    Args:
        handler: Tells which instances this node can run.
        clock: The store's time, as this node has it.
        held: Takes what is let in.
        recorder: Takes what is not.
        spares: Tells whether too many runs of a definition hang here.
        defaults: What holds for definitions that do not say.
        events: Told of what is claimed.

    Attributes:
        withdrawing: Lets go of what is edited before it is called.
        notices: Why instances were given back.
    """

    def __init__(
        self,
        handler: Handler,
        clock: StoreClock,
        *,
        held: Held,
        recorder: Recorder,
        spares: Spares,
        defaults: Defaults,
        events: Events = LOG_ALONE,
    ) -> None:
        self._handler = handler
        self._clock = clock
        self._held = held
        self._recorder = recorder
        self.withdrawing = Withdrawing(held, recorder)
        self._spares = spares
        self._per_node = PerNode(held)
        self._defaults = defaults
        self.notices = HealthWarnings()
        self._events = events.teller("running", bounded=True)

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
                self._recorder.release(run, later.reason, delay=later.delay)
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
        refusal = self._spares.refusal(run.instance)
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
            self._recorder.refuse(run, verdict.decision)
        else:
            self._notice(run.instance, verdict.reason)
            self._recorder.release(run, verdict.reason, delay=verdict.delay)

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
