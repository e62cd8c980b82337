"""Explains what decided about a definition, now or at an instant."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.firing.latest import jitter_of
from go_scheduler.formatting import duration_text, utc_text
from go_scheduler.models import RUNS, State
from go_scheduler.stores.rules import FULL
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.stored import UnknownTrigger
from go_scheduler.why.about_instance import about, but_nobody_would, frozen, paused
from go_scheduler.why.answer import Because, Why

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import Skipped, TaskInstance
    from go_scheduler.stores.messages import Tombstone
    from go_scheduler.triggers.previews import PreviewedTime
    from go_scheduler.why.facts import Facts

# A node may be about to make the instance.
_PATIENCE = timedelta(seconds=5)
_NOW = {**dict.fromkeys(RUNS, 0), State.CLAIMED: 1}


def why_now(facts: Facts) -> Why:
    """Where a definition stands now, and what it did last."""
    open_ones = [each for each in facts.instances if each.completed_at is None]
    ended = [each for each in facts.instances if each.completed_at is not None]
    first = min(open_ones, key=_urgency, default=None)
    if first is not None and not _is_only_paused(facts, open_ones):
        answer = about(facts, first)
        return replace(answer, text=answer.text + _besides(facts, first) + _full(facts))
    answer = _of_definition(facts)
    text = answer.text + _full(facts)
    if first is not None:
        text += f" {frozen(facts, first)}"
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
        if (skipped := each.skipped) and skipped.first <= facts.at <= skipped.last:
            return _within(facts, each, skipped)
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
        return paused(facts, None)
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


def _besides(facts: Facts, instance: TaskInstance) -> str:
    """A sentence on the definition, besides one of its open instances."""
    if facts.definition.paused:
        return f" {paused(facts, None).text}"
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


def _is_only_paused(facts: Facts, open_ones: Sequence[TaskInstance]) -> bool:
    pending = all(each.state is State.PENDING for each in open_ones)
    return facts.definition.paused and pending


def _urgency(instance: TaskInstance) -> tuple[int, datetime]:
    """Sorts running instances first, then claimed ones, then by when they are due."""
    return _NOW.get(instance.state, 2), instance.due_at


def _is_of_then(facts: Facts, instance: TaskInstance) -> bool:
    if facts.is_then(instance.fire_time) or facts.is_then(instance.execute_at):
        return True
    skipped = instance.skipped
    return skipped is not None and (
        facts.is_then(skipped.first) or facts.is_then(skipped.last)
    )


def _within(facts: Facts, record: TaskInstance, skipped: Skipped) -> Why:
    """The record of skipped fire times around an instant."""
    # The single fire times are not kept, and the trigger may have changed since.
    text = (
        f"{facts.times(facts.at)} is within {facts.times(skipped.first)} to"
        f" {facts.times(skipped.last)}, in which {skipped.count} fire times were"
        f" skipped: {skipped.reason}."
    )
    return replace(about(facts, record), text=text)


def _of_definition(facts: Facts) -> Why:
    """The state of a definition without an open instance."""
    definition = facts.definition
    if definition.paused:
        return paused(facts, None)
    if isinstance(definition.trigger, UnknownTrigger):
        return _unknown_trigger(facts, definition.trigger)
    if definition.next_fire_time is not None:
        return _fires(facts, definition.next_fire_time)
    if definition.completed_at is not None:
        return _ended(facts)
    return _nothing_then(facts)


def _fires(facts: Facts, fire_time: datetime) -> Why:
    """A fire time that has no instance yet."""
    at = facts.times(fire_time)
    following = facts.definition.next_fire_time or fire_time
    if following < facts.now - _PATIENCE:
        text = (
            f"It is overdue: it should have fired at {facts.times(following)}, and no"
            f" node has made its instance{_makers(facts)}{but_nobody_would(facts)}"
        )
        return facts.answer(Because.OVERDUE, text, since=following)
    soon = fire_time - facts.now
    begins, made = "It fires at", "its instance is made shortly before"
    if soon < timedelta(0):
        begins, made = "It should have fired at", "its instance is not made yet"
    when = f", in {duration_text(soon)}" if soon > timedelta(0) else ""
    if later := jitter_of(facts.definition, fire_time):
        when += f", and is to run at {facts.times(fire_time + later)} by its jitter"
    text = f"{begins} {at}{when}; {made}.{but_nobody_would(facts)}"
    return facts.answer(Because.TO_COME, text, until=fire_time)


def _makers(facts: Facts) -> str:
    """How many nodes could have made the instance, and what may be wrong."""
    if not facts.takers:
        return "."
    if len(facts.takers) == 1:
        return "; 1 node is alive. Does it know the trigger?"
    return f"; {len(facts.takers)} nodes are alive. Do they know the trigger?"


def _nothing_then(facts: Facts) -> Why:
    """The schedule has no fire time then; an instance may run then all the same."""
    trigger = facts.definition.trigger
    if isinstance(trigger, OnDemandTrigger):
        text = "Nothing: it has no fire times, and runs only when somebody asks for it."
        return facts.answer(Because.NO_FIRE_TIME, text + _ran_meanwhile(facts))
    if trigger.waits:
        text = (
            "It fires after the end of each run, so nobody knows when before that has"
            f" ended.{_ran_meanwhile(facts)}"
        )
        return facts.answer(Because.WAITS_FOR_END, text)
    nearest = facts.nearest()
    text = f"Nothing: the schedule has no fire time at {facts.times(facts.at)}"
    if facts.at < facts.now and facts.definition.revision != 1:
        # The definition may have had another trigger then.
        text = (
            f"Nothing is kept of {facts.times(facts.at)}, and the trigger that it has"
            " now has no fire time then"
        )
    if nearest:
        are = "is" if len(nearest) == 1 else "are"
        times = " and ".join(_marked(facts, each) for each in nearest)
        text += f"; the nearest {are} {times}"
    text += f".{_ran_meanwhile(facts)}"
    return replace(facts.answer(Because.NO_FIRE_TIME, text), nearest=tuple(nearest))


def _marked(facts: Facts, time: PreviewedTime) -> str:
    """A fire time, with the effect of a change of the clocks."""
    effect = "" if time.effect is None else f" ({time.effect})"
    return facts.times(time.at) + effect


def _ran_meanwhile(facts: Facts) -> str:
    """A sentence on an instance that was running then; empty: none was."""
    for each in facts.instances:
        ended = each.completed_at or facts.now
        if each.started_at is not None and each.started_at <= facts.at < ended:
            due = facts.times(each.execute_at)
            return f" The instance of {due} was running then."
    return ""


def _not_kept(facts: Facts, fire_time: datetime) -> Why:
    text = f"The schedule has a fire time at {facts.times(fire_time)}"
    kept = facts.retention
    if kept is not None and fire_time > facts.now - kept:
        text += (
            ", and there is no instance of it: it was scheduled, or given this trigger,"
            " after that."
        )
    else:
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
