"""What there is to say of one instance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import RUNS, State, TaskInstance
from go_scheduler.why.answer import Because, Why
from go_scheduler.why.ended import cancelled, completed, failed, skipped
from go_scheduler.why.instance_words import (
    before,
    last_error,
    time_of,
    who_has,
    why_of,
)
from go_scheduler.why.not_begun import given_back, not_begun
from go_scheduler.why.obstacles import but_nobody_would, obstacle
from go_scheduler.why.paused import paused
from go_scheduler.why.words import length

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from go_scheduler.why.facts import Facts


def about(facts: Facts, instance: TaskInstance) -> Why:
    """What became of an instance, or where it stands."""
    answer = _BY_STATE[instance.state](facts, instance)
    text = answer.text
    if instance.backfilled is not None:
        text += " It was backfilled, by hand."
    if instance.reopened_at is not None:
        again = facts.times(instance.reopened_at)
        text += f" It was made to run again, by hand, at {again}."
    return replace(answer, text=text)


def _running(facts: Facts, instance: TaskInstance) -> Why:
    text = not_begun(facts, instance) or (
        f"It is running, since {time_of(facts, instance.started_at)}, on"
        f" {who_has(facts, instance)}.{_claim(facts, instance)}"
    )
    if instance.cancel_requested:
        text += " It has been asked to stop."
    text += before(instance)
    return why_of(
        facts,
        instance,
        Because.RUNNING,
        text,
        since=instance.started_at,
        until=instance.expires_at,
    )


def _held(facts: Facts, instance: TaskInstance) -> Why:
    begins = "is" if instance.due_at > facts.now else "was"
    begins += " to run again at" if instance.runs else " due at"
    text = (
        f"It {begins} {facts.times(instance.due_at)}{_by_jitter(instance)}, and is held"
        f" by {who_has(facts, instance)}.{_claim(facts, instance)}"
        f"{before(instance)}"
    )
    return why_of(facts, instance, Because.HELD, text, until=instance.expires_at)


def _pending(facts: Facts, instance: TaskInstance) -> Why:
    if facts.definition.paused:
        return paused(facts, instance)
    if instance.parked:
        return _parked(facts, instance)
    due = facts.times(instance.due_at)
    if instance.due_at <= facts.now:
        return _waits(facts, instance)
    soon = length(instance.due_at - facts.now)
    if instance.runs:
        text = f"It runs again at {due}, in {soon}."
        text += f"{given_back(instance)}{last_error(instance)}"
        because, since = Because.RETRY, None
    elif (since := instance.execute_at) <= facts.now:
        was, because = facts.times(since), Because.WAITS_FOR_NODE
        text = f"It was due at {was}, and is offered again at {due}, in {soon}."
        text += given_back(instance) or " It was given back."
        if (most := instance.definition.max_per_node) is not None:
            text += f" Of its definition, one node has at most {most} at once."
    else:
        text = f"It is due at {due}{_by_jitter(instance)}, in {soon}."
        because, since = Because.PENDING, None
    text += but_nobody_would(facts)
    return why_of(
        facts,
        instance,
        because,
        text,
        since=since,
        until=instance.due_at,
        reason=instance.given_back or instance.error,
    )


def _by_jitter(instance: TaskInstance) -> str:
    """Why a first run is due later than its fire time, if it is by its jitter."""
    fire_time, jitter = instance.fire_time, instance.definition.jitter
    if fire_time is None or jitter is None or instance.runs:
        return ""
    return " by its jitter" if instance.execute_at > fire_time else ""


def _parked(facts: Facts, instance: TaskInstance) -> Why:
    """What is due, and whose turn is another instance's."""
    lock, holder = instance.definition.lock, facts.holder
    has, what = "runs", "another one of its definition has ended"
    if lock is not None:
        has, what = "has the lock", f"whatever has the lock {lock!r} has ended"
    since = facts.times(instance.due_at)
    text = f"It has been due since {since}, and waits until {what}."
    if holder is None:
        text += f" Just now nothing {has}, and the next goes on in a moment."
        text += but_nobody_would(facts)
    else:
        its = replace(facts, definition=holder.definition, holder=None)
        text += f" Instance {holder.id}{_of(facts, holder)}: {about(its, holder).text}"
    return why_of(
        facts,
        instance,
        Because.PARKED,
        text,
        holder=holder,
        since=instance.due_at,
        reason=instance.error,
    )


def _of(facts: Facts, holder: TaskInstance) -> str:
    """Whose an instance is, if it is another definition's."""
    of = holder.definition
    if of.id == facts.definition.id:
        return ""
    return f" of definition {of.id}" + ("" if of.name is None else f" ({of.name})")


def _waits(facts: Facts, instance: TaskInstance) -> Why:
    """What is due, and nobody has taken."""
    what = obstacle(facts)
    if what is None:
        queue, name = facts.definition.queue, facts.definition.name
        able = [each for each in facts.takers if each.serves(queue)]
        nodes = ", ".join(str(each) for each in able if each.knows(name))
        what = (
            f"no node has taken it yet; it may be taken by {nodes}, once there is room"
        )
    # To give it back has moved when it is due.
    first = not instance.runs and instance.reopened_at is None
    due = instance.execute_at if first else instance.due_at
    text = f"It has been due since {facts.times(due)}, and {what}."
    text += f"{given_back(instance)}{before(instance)}"
    return why_of(
        facts,
        instance,
        Because.WAITS_FOR_NODE,
        text,
        since=due,
        reason=instance.given_back or instance.error,
    )


def _claim(facts: Facts, instance: TaskInstance) -> str:
    until = instance.expires_at
    if until is not None and until <= facts.now:
        gone = (
            "the node has died, or has lost the store"
            if instance.worker is None
            else "the worker is gone, or cut off"
        )
        return (
            f" Its claim has lapsed, at {facts.times(until)}: {gone}, and another one"
            " takes it over."
        )
    return f" Its claim holds until {time_of(facts, until)}, and is renewed until then."


_BY_STATE: Mapping[State, Callable[[Facts, TaskInstance], Why]] = {
    State.COMPLETED: completed,
    State.FAILED: failed,
    State.CANCELLED: cancelled,
    State.SKIPPED: skipped,
    **dict.fromkeys(RUNS, _running),
    State.CLAIMED: _held,
    State.PENDING: _pending,
}
