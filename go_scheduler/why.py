"""Explains what happened to a definition at an instant, or will happen, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from go_scheduler.clock import ZERO
from go_scheduler.firing.latest import jitter_of, latest_fire_time
from go_scheduler.formatting import clock_text, duration_text, shown, summary, utc_text
from go_scheduler.models import RUNS, NodeInfo, State, TaskDefinition, TaskInstance
from go_scheduler.stores.rules import FULL
from go_scheduler.triggers.base import Trigger, UnknownTrigger, next_fire_time_of
from go_scheduler.triggers.local_time import load_zone, zone_of
from go_scheduler.triggers.previews import PreviewedTime, ask, preview
from go_scheduler.triggers.simple import OnDemandTrigger
from go_scheduler.triggers.times import FIRST_INSTANT, MICROSECOND

if TYPE_CHECKING:
    from go_scheduler.stores.messages import Tombstone


class Because(StrEnum):
    """What decided about it."""

    COMPLETED = "completed"
    """It ran."""
    FAILED = "failed"
    """It ran, and its last run failed."""
    CANCELLED = "cancelled"
    """Somebody cancelled it."""
    SKIPPED = "skipped"
    """It was skipped, or is within a range of skipped fire times, for the reason."""
    RUNNING = "running"
    """It runs."""
    HELD = "held"
    """A node has claimed it, and is about to call its handler."""
    RETRY = "retry"
    """A run of it failed, and the next run is due later."""
    PENDING = "pending"
    """It is due later."""
    WAITS_FOR_NODE = "waits for a node"
    """It is due, and no node has claimed it."""
    PARKED = "parked"
    """It is due, and waits for another instance to end, by its overlap or lock."""
    PAUSED = "paused"
    """Its definition is paused."""
    TO_COME = "to come"
    """It will fire then; its instance is made shortly before."""
    OVERDUE = "overdue"
    """It should have fired, and no node has made its instance."""
    WAITS_FOR_END = "waits for the end of a run"
    """Its trigger counts from the end of each run: nobody knows when that is."""
    NO_FIRE_TIME = "no fire time"
    """The schedule has no fire time then."""
    NOT_KEPT = "not kept"
    """The schedule has a fire time then, but no record of it is kept."""
    ENDED = "ended"
    """Its last fire time was before."""
    UNKNOWN_TRIGGER = "unknown trigger"
    """This process cannot read its trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What happened, happens or will happen, and what decided about it.

    Attributes:
        definition_id: The definition.
        at: The instant that was asked about, in UTC.
        because: What decided it.
        text: The same in sentences, for people. They may change with any version.
        instance: The instance that the answer is about; None: there is none.
        node: The node that has that instance, or had it last; None: there is none, or
            it is no longer known.
        holder: The instance that it waits for, of this definition or of another one
            with the same lock; None: it waits for none.
        since: When it began or happened; None: it is not known.
        until: When it ends or is due; None: it is not known.
        reason: A recorded reason: the note of a pause, the error of the last run, or
            why fire times were skipped.
        nearest: The fire times before and after that instant, as far as they exist and
            are known, in the zone of the schedule.
    """

    definition_id: UUID
    at: datetime
    because: Because
    text: str
    instance: TaskInstance | None = None
    node: NodeInfo | None = None
    holder: TaskInstance | None = None
    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    nearest: tuple[PreviewedTime, ...] = ()

    def __str__(self) -> str:
        return self.text


_T = TypeVar("_T")
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
            if step >= self.at - FIRST_INSTANT:
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


# A node may be about to make the instance.
_PATIENCE = timedelta(seconds=5)
# A shorter delay does not count as late.
_ON_TIME = timedelta(milliseconds=1)
_NOW = {**dict.fromkeys(RUNS, 0), State.CLAIMED: 1}


def why_now(facts: Facts) -> Why:
    """Where a definition stands now, and what it did last."""
    open_ones = [each for each in facts.instances if each.completed_at is None]
    ended = [each for each in facts.instances if each.completed_at is not None]
    # Running instances first, then claimed ones, then by when they are due.
    open_ones.sort(key=lambda each: (_NOW.get(each.state, 2), each.due_at))
    is_paused = facts.definition.paused
    if open_ones and not (is_paused and open_ones[0].state is State.PENDING):
        answer = about(facts, open_ones[0])
        besides = _besides(facts, open_ones[0])
        return replace(answer, text=answer.text + besides + _full(facts))
    answer = _of_definition(facts)
    text = answer.text + _full(facts)
    if open_ones:
        frozen = open_ones[0]
        due = facts.times(frozen.due_at)
        text += f" Instance {frozen.id}, due at {due}, waits for that.{_before(frozen)}"
    if ended:
        text += f" Its last instance: {about(facts, ended[0]).text}"
    return replace(answer, text=text)


def why_then(facts: Facts) -> Why:
    """What happened at an instant, or will happen."""
    of_then = [each for each in facts.instances if _is_of_then(facts, each)]
    if of_then:
        # A backfilled instance counts more than the record that it was skipped.
        return about(facts, min(of_then, key=lambda each: each.skipped is not None))
    for each in facts.instances:
        if (record := each.skipped) and record.first <= facts.at <= record.last:
            # The single fire times are not kept, and the trigger may have changed.
            text = (
                f"{facts.times(facts.at)} is within {facts.times(record.first)} to"
                f" {facts.times(record.last)}, in which {record.count} fire times were"
                f" skipped: {record.reason}."
            )
            return replace(about(facts, each), text=text)
    definition = facts.definition
    if isinstance(definition.trigger, UnknownTrigger):
        return _unknown_trigger(facts, definition.trigger)
    fire_time = facts.fire_time()
    if fire_time is None or definition.trigger.waits:
        return _nothing_then(facts)
    following = definition.next_fire_time
    if following is None and facts.at > facts.now:
        return _ended(facts)
    if following is None or fire_time < following:
        return _not_kept(facts, fire_time)
    if definition.paused:
        return _paused(facts)
    return _fires(facts, fire_time)


def why_gone(tombstone: Tombstone, *, at: datetime) -> Why:
    """The answer for a definition that has ended and was deleted since."""
    return Why(
        definition_id=tombstone.id,
        at=at,
        because=Because.ENDED,
        text=(
            f"It has ended: its last fire time had its instance at"
            f" {utc_text(tombstone.completed_at)}, and all of it has been"
            " deleted since. Its id is remembered: scheduled again with an equal"
            " trigger, it does not run again."
        ),
        since=tombstone.completed_at,
    )


def about(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for an instance, by its state."""
    if instance.overrides:
        facts = replace(facts, definition=instance.definition)
    if instance.outcome is not None:
        answer = _ended_instance(facts, instance)
    elif instance.state in RUNS:
        answer = _running(facts, instance)
    elif instance.state is State.CLAIMED:
        answer = _held(facts, instance)
    else:
        answer = _pending(facts, instance)
    text = answer.text
    if instance.backfilled is not None:
        text += " It was backfilled, by hand."
    if instance.reopened_at is not None:
        again = facts.times(instance.reopened_at)
        text += f" It was made to run again, by hand, at {again}."
    return replace(answer, text=text)


def _is_of_then(facts: Facts, instance: TaskInstance) -> bool:
    times = [instance.fire_time, instance.execute_at]
    if instance.skipped is not None:
        times += [instance.skipped.first, instance.skipped.last]
    return any(map(facts.is_then, times))


def _besides(facts: Facts, instance: TaskInstance) -> str:
    """A sentence on the definition, besides one of its open instances."""
    if facts.definition.paused:
        return f" {_paused(facts).text}"
    following = facts.definition.next_fire_time
    if following is not None and not facts.definition.trigger.waits:
        # There may be instances of several fire times by now.
        following = facts.next_after(max(facts.now, instance.fire_time or facts.now))
    if following is None:
        return ""
    return f" Its definition fires next at {facts.times(following)}."


def _full(facts: Facts) -> str:
    """A sentence if its queue is full: what happens to more instances."""
    of = facts.definition
    if of.max_queue is None or facts.waiting != of.max_queue:
        return ""
    added = "recorded as skipped" if of.when_full == "drop" else "refused"
    return f" It is full: {FULL % of.max_queue}. What is added now is {added}."


def _of_definition(facts: Facts) -> Why:
    """The state of a definition without an open instance."""
    definition = facts.definition
    if definition.paused:
        return _paused(facts)
    if isinstance(definition.trigger, UnknownTrigger):
        return _unknown_trigger(facts, definition.trigger)
    if definition.next_fire_time is not None:
        return _fires(facts, definition.next_fire_time)
    if definition.completed_at is not None:
        return _ended(facts)
    return _nothing_then(facts)


def _paused(facts: Facts, instance: TaskInstance | None = None) -> Why:
    """The answer for a paused definition: nothing starts."""
    note, since = facts.definition.note, facts.definition.paused_at
    text = (
        f"It is paused since {facts.times(since)} ({note or 'there is no note'}), so"
        " that nothing of it starts until it is resumed."
    )
    following = facts.definition.next_fire_time
    if instance is not None:
        text += _before(instance)
    elif following is not None and following > facts.now:
        text += f" Its next fire time is {facts.times(following)}."
    elif following is not None:
        text += (
            f" Its fire times since {facts.times(following)} are missed; once it is"
            " resumed, its catch_up decides what becomes of them."
        )
    answer = facts.answer(Because.PAUSED, text, since=since, reason=note)
    return replace(answer, instance=instance)


def _fires(facts: Facts, fire_time: datetime) -> Why:
    """A fire time that has no instance yet."""
    following = facts.definition.next_fire_time or fire_time
    if following < facts.now - _PATIENCE:
        text = (
            f"It is overdue: it should have fired at {facts.times(following)}, and no"
            " node has made its instance"
        )
        if (number := len(facts.takers)) == 1:
            text += "; 1 node is alive. Does it know the trigger?"
        elif number:
            text += f"; {number} nodes are alive. Do they know the trigger?"
        else:
            text += "."
        text += _but_nobody_would(facts)
        return facts.answer(Because.OVERDUE, text, since=following)
    begins, made, when = "It should have fired at", "its instance is not made yet", ""
    if fire_time >= facts.now:
        begins, made = "It fires at", "its instance is made shortly before"
    if fire_time > facts.now:
        when = f", in {duration_text(fire_time - facts.now)}"
    if later := jitter_of(facts.definition, fire_time):
        when += f", and is to run at {facts.times(fire_time + later)} by its jitter"
    text = f"{begins} {facts.times(fire_time)}{when}; {made}.{_but_nobody_would(facts)}"
    return facts.answer(Because.TO_COME, text, until=fire_time)


def _nothing_then(facts: Facts) -> Why:
    """The schedule has no fire time then; an instance may run then all the same."""
    trigger, because = facts.definition.trigger, Because.NO_FIRE_TIME
    nearest: Sequence[PreviewedTime] = ()
    if isinstance(trigger, OnDemandTrigger):
        text = "Nothing: it has no fire times, and runs only when somebody asks for it."
    elif trigger.waits:
        because = Because.WAITS_FOR_END
        text = (
            "It fires after the end of each run, so nobody knows when before that has"
            " ended."
        )
    else:
        nearest = facts.nearest()
        text = f"Nothing: the schedule has no fire time at {facts.times(facts.at)}"
        if facts.at < facts.now and facts.definition.revision != 1:
            # The definition may have had another trigger then.
            text = (
                f"Nothing is kept of {facts.times(facts.at)}, and the trigger that it"
                " has now has no fire time then"
            )
        if nearest:
            times = " and ".join(
                # With the effect of a change of the clocks.
                facts.times(each.at) + (f" ({each.effect})" if each.effect else "")
                for each in nearest
            )
            text += f"; the nearest {'is' if len(nearest) == 1 else 'are'} {times}"
        text += "."
    for each in facts.instances:
        ended = each.completed_at or facts.now
        if each.started_at is not None and each.started_at <= facts.at < ended:
            due = facts.times(each.execute_at)
            text += f" The instance of {due} was running then."
            break
    return replace(facts.answer(because, text), nearest=tuple(nearest))


def _not_kept(facts: Facts, fire_time: datetime) -> Why:
    text = f"The schedule has a fire time at {facts.times(fire_time)}"
    kept = facts.retention
    if kept is not None and fire_time > facts.now - kept:
        text += (
            ", and there is no instance of it: it was scheduled, or given this trigger,"
            " after that."
        )
        return facts.answer(Because.NOT_KEPT, text)
    gone = "ended instances are deleted after the retention"
    if kept == ZERO:
        gone = "what has succeeded is deleted as it ends"
    elif kept is not None:
        gone = f"ended instances are deleted {duration_text(kept)} after their end"
    text += (
        f", and nothing of it is kept: {gone}, or it was scheduled, or given this"
        " trigger, later than that."
    )
    return facts.answer(Because.NOT_KEPT, text)


def _ended(facts: Facts) -> Why:
    completed_at = facts.definition.completed_at
    text = "It has ended: its last fire time has had its instance"
    if completed_at is not None:
        text += f", at {facts.times(completed_at)}"
    if not facts.instances:
        text += "; what became of it is no longer kept"
    return facts.answer(Because.ENDED, f"{text}.", since=completed_at)


def _unknown_trigger(facts: Facts, trigger: UnknownTrigger) -> Why:
    text = (
        "This process cannot read its trigger, and so not tell when it fires:"
        f" {trigger.reason}. Ask in a process that knows it."
    )
    return facts.answer(Because.UNKNOWN_TRIGGER, text, reason=trigger.reason)


def _ended_instance(facts: Facts, instance: TaskInstance) -> Why:
    runs = "1 run" if instance.runs == 1 else f"{instance.runs} runs"
    last, ran = _last_error(instance), _run_of(facts, instance)
    record, reason = instance.skipped, None
    since, until = instance.completed_at, None
    if instance.state is State.COMPLETED:
        text = f"It has completed. {ran}"
        since, until = instance.started_at, instance.completed_at
        if instance.runs > 1:
            text += f" It took {runs}.{last}"
    elif instance.state is State.FAILED:
        text = f"It has failed, after {runs}.{last} {ran}"
        reason = instance.error
    elif record is None:
        text = f"It was {instance.state} at {facts.times(since)}."
    else:
        since, until, reason = record.first, record.last, record.reason
        what = "The fire time at" if instance.fire_time else "What was to run at"
        text = f"{what} {facts.times(since)} was skipped: {reason}."
        if record.count > 1:
            text = (
                f"{record.count} fire times were skipped, from {facts.times(since)} to"
                f" {facts.times(until)}: {reason}."
            )
    because = Because(instance.state.value)
    return facts.answer(
        because, text, instance, since=since, until=until, reason=reason
    )


def _running(facts: Facts, instance: TaskInstance) -> Why:
    text = (
        f"It is running, since {facts.times(instance.started_at)}, on"
        f" {_who_has(facts, instance)}.{_claim(facts, instance)}"
    )
    if instance.start_by is not None:
        text = _not_begun(facts, instance, instance.start_by)
    if instance.cancel_requested:
        text += " It has been asked to stop."
    text += _before(instance)
    since, until = instance.started_at, instance.expires_at
    return facts.answer(Because.RUNNING, text, instance, since=since, until=until)


def _held(facts: Facts, instance: TaskInstance) -> Why:
    begins = "is" if instance.due_at > facts.now else "was"
    begins += " to run again at" if instance.runs else " due at"
    text = (
        f"It {begins} {facts.times(instance.due_at)}{_by_jitter(instance)}, and is held"
        f" by {_who_has(facts, instance)}.{_claim(facts, instance)}"
        f"{_before(instance)}"
    )
    return facts.answer(Because.HELD, text, instance, until=instance.expires_at)


def _pending(facts: Facts, instance: TaskInstance) -> Why:
    if facts.definition.paused:
        return _paused(facts, instance)
    if instance.parked:
        return _parked(facts, instance)
    if instance.due_at <= facts.now:
        return _due(facts, instance)
    due = facts.times(instance.due_at)
    soon = duration_text(instance.due_at - facts.now)
    because, since = Because.PENDING, None
    text = f"It is due at {due}{_by_jitter(instance)}, in {soon}."
    if instance.runs:
        because = Because.RETRY
        text = f"It runs again at {due}, in {soon}."
        text += f"{_given_back(instance)}{_last_error(instance)}"
    elif instance.execute_at <= facts.now:
        because, since = Because.WAITS_FOR_NODE, instance.execute_at
        text = f"It was due at {facts.times(since)}, and is offered again at {due}, in"
        text += f" {soon}.{_given_back(instance) or ' It was given back.'}"
        if (most := instance.definition.max_per_node) is not None:
            text += f" Of its definition, one node has at most {most} at once."
    text += _but_nobody_would(facts)
    until, reason = instance.due_at, instance.given_back or instance.error
    return facts.answer(
        because, text, instance, since=since, until=until, reason=reason
    )


def _due(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for an instance that is due and not claimed."""
    what = _obstacle(facts)
    if what is None:
        queue, name = facts.definition.queue, facts.definition.name
        able = [each for each in facts.takers if each.serves(queue)]
        nodes = ", ".join(str(each) for each in able if each.knows(name))
        what = (
            f"no node has taken it yet; it may be taken by {nodes}, once there is room"
        )
    # Giving it back has moved the time when it is due.
    first = not instance.runs and instance.reopened_at is None
    since = instance.execute_at if first else instance.due_at
    text = f"It has been due since {facts.times(since)}, and {what}."
    text += f"{_given_back(instance)}{_before(instance)}"
    reason = instance.given_back or instance.error
    return facts.answer(
        Because.WAITS_FOR_NODE, text, instance, since=since, reason=reason
    )


def _parked(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for an instance that waits for another one to end."""
    lock, holder, since = instance.definition.lock, facts.holder, instance.due_at
    has, what = "runs", "another one of its definition has ended"
    if lock is not None:
        has, what = "has the lock", f"whatever has the lock {lock!r} has ended"
    text = f"It has been due since {facts.times(since)}, and waits until {what}."
    if holder is None:
        text += f" Just now nothing {has}, and the next goes on in a moment."
        text += _but_nobody_would(facts)
    else:
        of, whose = holder.definition, ""
        if of.id != facts.definition.id:
            whose = f" of definition {of.id}"
            whose += "" if of.name is None else f" ({of.name})"
        its = about(replace(facts, definition=of, holder=None), holder)
        text += f" Instance {holder.id}{whose}: {its.text}"
    reason = instance.error
    answer = facts.answer(Because.PARKED, text, instance, since=since, reason=reason)
    return replace(answer, holder=holder)


def _run_of(facts: Facts, instance: TaskInstance) -> str:
    """A sentence on when and where the last run was."""
    text = f"It was due at {facts.times(instance.execute_at)}"
    started, ended = instance.started_at, instance.completed_at
    if started is None or ended is None:
        return f"{text}, and was not called."
    late = started - instance.due_at
    lateness = f"{duration_text(late)} late" if late >= _ON_TIME else "on time"
    if instance.runs > 1:
        lateness += " for its retry"
    return (
        f"{text}; its last run started at {facts.times(started)}, {lateness}, on"
        f" {_who_has(facts, instance)}, as attempt"
        f" {instance.ended_attempt or instance.attempt}, and took"
        f" {duration_text(ended - started)}."
    )


_THEN = "Else it has failed, and any node takes it over."
_OVERDUE = (
    "That is overdue: a node that serves its queue takes it over, within about a sixth"
    " of its `lease`; one that has just started, or was without the store, after a"
    " whole one. It has failed then, and goes by its `retry`."
)


def _not_begun(facts: Facts, instance: TaskInstance, start_by: datetime) -> str:
    """How long a run on a bus waits for a worker."""
    until = facts.times(start_by)
    is_over = start_by <= facts.now
    then = f"{_OVERDUE}{_but_nobody_would(facts)}" if is_over else _THEN
    if instance.accepted_at is not None:
        by = "was to begin it by" if is_over else "is to begin it by"
        return (
            f"It was accepted at {facts.times(instance.accepted_at)}, by the worker"
            f" {shown(instance.worker)}, which {by} {until}. {then}"
        )
    waits = f"waits until {until} for a worker to accept it"
    if is_over:
        waits = f"was to be accepted by a worker by {until}"
    node = _node_text(facts, instance.claimed_by)
    return f"It was published by {node}, and {waits}. {then}"


def _who_has(facts: Facts, instance: TaskInstance) -> str:
    """The node or worker that has the instance, or had it last."""
    node = _node_text(facts, instance.claimed_by)
    if instance.worker is None:
        return node
    return f"the worker {shown(instance.worker)}, to which it was handed by {node}"


def _node_text(facts: Facts, id: UUID | None) -> str:
    """A node, with its host and process if they are known."""
    node = facts.node(id)
    return str(node or f"node {id}, of which nothing is known any more")


def _claim(facts: Facts, instance: TaskInstance) -> str:
    """A sentence on how long its claim holds, or that it has lapsed."""
    until = facts.times(instance.expires_at)
    node, at_worker = facts.node(instance.claimed_by), instance.worker is not None
    # A worker over HTTP need not say its name.
    left = not at_worker and node is not None and node.stopping
    if instance.expires_at is None or instance.expires_at > facts.now:
        who = "the worker" if at_worker else "its node"
        text = f" Its claim holds until {until}, unless {who} renews it before."
        if left and instance.state in RUNS:
            text += (
                " That node has been told to stop. If it has handed the run to a worker"
                " over HTTP, the worker goes on."
            )
        return text
    gone = "the node has died, or has lost the store"
    if at_worker:
        gone = "the worker is gone, or cut off"
    elif left:
        gone = "the node has stopped, or the worker that it handed the run to is gone"
    return f" Its claim has lapsed, at {until}: {gone}, and another one takes it over."


def _by_jitter(instance: TaskInstance) -> str:
    """Says that a first run is later than its fire time by its jitter, if it is."""
    fire_time = instance.fire_time
    if fire_time is None or instance.runs:
        return ""
    return " by its jitter" if instance.execute_at > fire_time else ""


def _before(instance: TaskInstance) -> str:
    """A sentence on earlier runs; empty: there were none."""
    # An instance that failed and is made to run again counts its runs from zero.
    if instance.runs > (instance.state in RUNS) or instance.error:
        return f" It has run before.{_last_error(instance)}"
    return ""


def _last_error(instance: TaskInstance) -> str:
    """A sentence with the error of the last failed run; empty: none failed."""
    return "" if not instance.error else f" Last error: {summary(instance.error)}."


def _given_back(instance: TaskInstance) -> str:
    """A sentence on why it was given back; empty: that is not known."""
    reason = instance.given_back
    return "" if reason is None else f" It was given back: {summary(reason)}."


def _but_nobody_would(facts: Facts) -> str:
    """The obstacle as a sentence; empty: there is none."""
    found = _obstacle(facts)
    return "" if found is None else f" But {found}."


def _obstacle(facts: Facts) -> str | None:
    """Why no node would run an instance of the definition; None: one would."""
    queue, name = facts.definition.queue, facts.definition.name
    match obstacle_of(facts.takers, queue, name):
        case Obstacle.NO_NODES:
            return "no node is alive that takes anything: start a scheduler"
        case Obstacle.QUEUE_UNSERVED:
            text = f"no living node serves the queue {queue!r}"
            gone = [each for each in facts.nodes if queue in (each.queues or ())]
            if not gone:
                return f"{text}, nor has one within the last hour"
            last = max(gone, key=lambda each: each.seen_at)
            return f"{text}; the last was {last}, seen at {facts.times(last.seen_at)}"
        case Obstacle.NAME_UNKNOWN:
            handler = of_name(name) if name is None else f"the name {name!r}"
            return f"no living node that serves its queue has a handler for {handler}"
    return None
