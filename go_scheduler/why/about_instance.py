"""Explains the state of an instance: it waits, runs, was given back, or has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.formatting import duration_text, shown, summary
from go_scheduler.models import RUNS, State, TaskInstance
from go_scheduler.why.answer import Because

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.why.answer import Why
    from go_scheduler.why.facts import Facts


def but_nobody_would(facts: Facts) -> str:
    """The obstacle as a sentence; empty: there is none."""
    found = obstacle(facts)
    return "" if found is None else f" But {found}."


def obstacle(facts: Facts) -> str | None:
    """Why no node would run an instance of the definition; None: one would."""
    queue, name = facts.definition.queue, facts.definition.name
    served = [each for each in facts.takers if each.serves(queue)]
    if not facts.takers:
        return "no node is alive that takes anything: start a scheduler"
    if not served:
        return f"no living node serves the queue {queue!r}{_served_last(facts, queue)}"
    if not any(each.knows(name) for each in served):
        handler = "definitions without a name" if name is None else f"the name {name!r}"
        return f"no living node that serves its queue has a handler for {handler}"
    return None


def _served_last(facts: Facts, queue: str) -> str:
    """Which node served a queue last, within the last hour."""
    gone = [each for each in facts.nodes if each.queues and queue in each.queues]
    if not gone:
        return ", nor has one within the last hour"
    last = max(gone, key=lambda each: each.seen_at)
    return f"; the last was {last}, seen at {facts.times(last.seen_at)}"


def who_has(facts: Facts, instance: TaskInstance) -> str:
    """The node or worker that has the instance, or had it last."""
    node = _node_text(facts, instance.claimed_by)
    if instance.worker is None:
        return node
    return f"the worker {shown(instance.worker)}, to which it was handed by {node}"


def _node_text(facts: Facts, id: UUID | None) -> str:
    """A node, with its host and process if they are known."""
    node = facts.node(id)
    return (
        f"node {id}, of which nothing is known any more" if node is None else str(node)
    )


def before(instance: TaskInstance) -> str:
    """A sentence on earlier runs; empty: there were none."""
    # An instance that failed and is made to run again counts its runs from zero.
    if instance.runs > (instance.state in RUNS) or instance.error:
        return f" It has run before.{last_error(instance)}"
    return ""


def last_error(instance: TaskInstance) -> str:
    """A sentence with the error of the last failed run; empty: none failed."""
    return "" if not instance.error else f" Last error: {summary(instance.error)}."


def time_of(facts: Facts, at: datetime | None) -> str:
    """A time that a row in this state has, unless someone changed the row by hand."""
    return "an unknown time" if at is None else facts.times(at)


_THEN = "Else it has failed, and any node takes it over."
_OVERDUE = (
    "That is overdue: a node that serves its queue takes it over, within about a sixth"
    " of its `lease`; one that has just started, or was without the store, after a"
    " whole one. It has failed then, and goes by its `retry`."
)


def not_begun(facts: Facts, instance: TaskInstance) -> str:
    """How long a run on a bus waits for a worker; empty: it does not."""
    if instance.start_by is None:
        return ""
    until = facts.times(instance.start_by)
    is_over = instance.start_by <= facts.now
    then = f"{_OVERDUE}{but_nobody_would(facts)}" if is_over else _THEN
    if instance.accepted_at is not None:
        by = "was to begin it by" if is_over else "is to begin it by"
        return (
            f"It was accepted at {facts.times(instance.accepted_at)}, by the worker"
            f" {shown(instance.worker)}, which {by} {until}. {then}"
        )
    node = _node_text(facts, instance.claimed_by)
    waits = f"waits until {until} for a worker to accept it"
    if is_over:
        waits = f"was to be accepted by a worker by {until}"
    return f"It was published by {node}, and {waits}. {then}"


def given_back(instance: TaskInstance) -> str:
    """A sentence on why it was given back; empty: that is not known."""
    reason = instance.given_back
    return "" if reason is None else f" It was given back: {summary(reason)}."


# A shorter delay does not count as late.
_ON_TIME = timedelta(milliseconds=1)


def completed(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for a completed instance: when and where it ran."""
    text = f"It has completed. {_run_of(facts, instance)}"
    if instance.runs > 1:
        text += f" It took {instance.runs} runs.{last_error(instance)}"
    since, until = instance.started_at, instance.completed_at
    return facts.answer(Because.COMPLETED, text, instance, since=since, until=until)


def failed(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for a failed instance, with its last error."""
    runs = "1 run" if instance.runs == 1 else f"{instance.runs} runs"
    last = f"{last_error(instance)} {_run_of(facts, instance)}"
    text = f"It has failed, after {runs}.{last}"
    since, reason = instance.completed_at, instance.error
    return facts.answer(Because.FAILED, text, instance, since=since, reason=reason)


def cancelled(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for a cancelled instance."""
    since = instance.completed_at
    text = f"It was cancelled at {time_of(facts, since)}."
    return facts.answer(Because.CANCELLED, text, instance, since=since)


def skipped(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for one skipped fire time or several, with the reason."""
    record = instance.skipped
    if record is None:
        since = instance.completed_at
        text = f"It was skipped at {time_of(facts, since)}."
        return facts.answer(Because.SKIPPED, text, instance, since=since)
    first, last = facts.times(record.first), facts.times(record.last)
    what = "The fire time at" if instance.fire_time else "What was to run at"
    text = f"{what} {first} was skipped: {record.reason}."
    if record.count > 1:
        text = (
            f"{record.count} fire times were skipped, from {first} to {last}:"
            f" {record.reason}."
        )
    return facts.answer(
        Because.SKIPPED,
        text,
        instance,
        since=record.first,
        until=record.last,
        reason=record.reason,
    )


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
        f" {who_has(facts, instance)}, as attempt"
        f" {instance.ended_attempt or instance.attempt}, and took"
        f" {duration_text(ended - started)}."
    )


def paused(facts: Facts, instance: TaskInstance | None) -> Why:
    """The answer for a paused definition: nothing starts."""
    note, since = facts.definition.note, facts.definition.paused_at
    text = (
        f"It is paused since {time_of(facts, since)}"
        f" ({note or 'there is no note'}), so that nothing of it starts until it is"
        " resumed."
    )
    text += _after_pause(facts) if instance is None else before(instance)
    answer = facts.answer(Because.PAUSED, text, since=since, reason=note)
    return replace(answer, instance=instance)


def _after_pause(facts: Facts) -> str:
    """A sentence on what the definition does once it is resumed."""
    following = facts.definition.next_fire_time
    if following is None:
        return ""
    if following > facts.now:
        return f" Its next fire time is {facts.times(following)}."
    return (
        f" Its fire times since {facts.times(following)} are missed; once it is"
        " resumed, its catch_up decides what becomes of them."
    )


def frozen(facts: Facts, instance: TaskInstance) -> str:
    """A sentence on the instance that waits for the end of the pause."""
    due = facts.times(instance.due_at)
    return f"Instance {instance.id}, due at {due}, waits for that.{before(instance)}"


def about(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for an instance, by its state."""
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
    since, until = instance.started_at, instance.expires_at
    return facts.answer(Because.RUNNING, text, instance, since=since, until=until)


def _held(facts: Facts, instance: TaskInstance) -> Why:
    begins = "is" if instance.due_at > facts.now else "was"
    begins += " to run again at" if instance.runs else " due at"
    text = (
        f"It {begins} {facts.times(instance.due_at)}{_by_jitter(instance)}, and is held"
        f" by {who_has(facts, instance)}.{_claim(facts, instance)}"
        f"{before(instance)}"
    )
    return facts.answer(Because.HELD, text, instance, until=instance.expires_at)


def _pending(facts: Facts, instance: TaskInstance) -> Why:
    if facts.definition.paused:
        return paused(facts, instance)
    if instance.parked:
        return _parked(facts, instance)
    due = facts.times(instance.due_at)
    if instance.due_at <= facts.now:
        return _waits(facts, instance)
    soon = duration_text(instance.due_at - facts.now)
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
    until, reason = instance.due_at, instance.given_back or instance.error
    return facts.answer(
        because, text, instance, since=since, until=until, reason=reason
    )


def _by_jitter(instance: TaskInstance) -> str:
    """Says that a first run is later than its fire time by its jitter, if it is."""
    fire_time, jitter = instance.fire_time, instance.definition.jitter
    if fire_time is None or jitter is None or instance.runs:
        return ""
    return " by its jitter" if instance.execute_at > fire_time else ""


def _parked(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for an instance that waits for another one to end."""
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
    return facts.answer(
        Because.PARKED,
        text,
        instance,
        holder=holder,
        since=instance.due_at,
        reason=instance.error,
    )


def _of(facts: Facts, holder: TaskInstance) -> str:
    """The definition of the holder, if it is another one."""
    of = holder.definition
    if of.id == facts.definition.id:
        return ""
    return f" of definition {of.id}" + ("" if of.name is None else f" ({of.name})")


def _waits(facts: Facts, instance: TaskInstance) -> Why:
    """The answer for an instance that is due and not claimed."""
    what = obstacle(facts)
    if what is None:
        queue, name = facts.definition.queue, facts.definition.name
        able = [each for each in facts.takers if each.serves(queue)]
        nodes = ", ".join(str(each) for each in able if each.knows(name))
        what = (
            f"no node has taken it yet; it may be taken by {nodes}, once there is room"
        )
    # Giving it back has moved the time when it is due.
    first = not instance.runs and instance.reopened_at is None
    due = instance.execute_at if first else instance.due_at
    text = f"It has been due since {facts.times(due)}, and {what}."
    text += f"{given_back(instance)}{before(instance)}"
    reason = instance.given_back or instance.error
    return facts.answer(
        Because.WAITS_FOR_NODE, text, instance, since=due, reason=reason
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
    held = time_of(facts, until)
    return f" Its claim holds until {held}, unless its node renews it before."


_BY_STATE: Mapping[State, Callable[[Facts, TaskInstance], Why]] = {
    State.COMPLETED: completed,
    State.FAILED: failed,
    State.CANCELLED: cancelled,
    State.SKIPPED: skipped,
    **dict.fromkeys(RUNS, _running),
    State.CLAIMED: _held,
    State.PENDING: _pending,
}
