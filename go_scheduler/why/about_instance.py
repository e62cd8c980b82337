"""What there is to say of one instance."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.models import RUNS, State, TaskInstance
from go_scheduler.shown import shown
from go_scheduler.why.answer import Because, Why
from go_scheduler.why.not_begun import GIVEN_BACK, given_back, not_begun
from go_scheduler.why.obstacles import but_nobody_would, obstacle
from go_scheduler.why.words import length, node_text, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from go_scheduler.why.facts import Facts


# Less than this is no lateness.
_ON_TIME = timedelta(milliseconds=1)


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


def _completed(facts: Facts, instance: TaskInstance) -> Why:
    text = f"It has completed. {_run_of(facts, instance)}"
    if instance.runs > 1:
        text += f" It took {instance.runs} runs.{_last_error(instance)}"
    return _why(
        facts,
        instance,
        Because.COMPLETED,
        text,
        since=instance.started_at,
        until=instance.completed_at,
    )


def _failed(facts: Facts, instance: TaskInstance) -> Why:
    runs = "1 run" if instance.runs == 1 else f"{instance.runs} runs"
    last = _run_of(facts, instance)
    return _why(
        facts,
        instance,
        Because.FAILED,
        f"It has failed, after {runs}.{_last_error(instance)} {last}",
        since=instance.completed_at,
        reason=instance.error,
    )


def _cancelled(facts: Facts, instance: TaskInstance) -> Why:
    text = f"It was cancelled at {_time(facts, instance.completed_at)}."
    return _why(facts, instance, Because.CANCELLED, text, since=instance.completed_at)


def _skipped(facts: Facts, instance: TaskInstance) -> Why:
    skipped = instance.skipped
    if skipped is None:
        text = f"It was skipped at {_time(facts, instance.completed_at)}."
        return _why(facts, instance, Because.SKIPPED, text, since=instance.completed_at)
    first, last = facts.times(skipped.first), facts.times(skipped.last)
    what = "The fire time at" if instance.fire_time else "What was to run at"
    text = f"{what} {first} was skipped: {skipped.reason}."
    if skipped.count > 1:
        text = (
            f"{skipped.count} fire times were skipped, from {first} to {last}:"
            f" {skipped.reason}."
        )
    return _why(
        facts,
        instance,
        Because.SKIPPED,
        text,
        since=skipped.first,
        until=skipped.last,
        reason=skipped.reason,
    )


def _running(facts: Facts, instance: TaskInstance) -> Why:
    text = not_begun(facts, instance) or (
        f"It is running, since {_time(facts, instance.started_at)}, on"
        f" {_owner(facts, instance)}.{_claim(facts, instance)}"
    )
    if instance.cancel_requested:
        text += " It has been asked to stop."
    text += _before(instance)
    return _why(
        facts,
        instance,
        Because.RUNNING,
        text,
        since=instance.started_at,
        until=instance.expires_at,
    )


def _held(facts: Facts, instance: TaskInstance) -> Why:
    begins = "It is to run again at" if instance.runs else "It is due at"
    text = (
        f"{begins} {facts.times(instance.due_at)}{_by_jitter(instance)}, and held by"
        f" {_owner(facts, instance)}.{_claim(facts, instance)}"
        f"{given_back(facts, instance)}{_before(instance)}"
    )
    return _why(
        facts,
        instance,
        Because.HELD,
        text,
        until=instance.expires_at,
        reason=facts.given_back.get(instance.id),
    )


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
        text += f"{given_back(facts, instance)}{_last_error(instance)}"
        because, since = Because.RETRY, None
    elif (since := instance.execute_at) <= facts.now:
        was, because = facts.times(since), Because.WAITS_FOR_NODE
        text = f"It was due at {was}, and is offered again at {due}, in {soon}."
        text += given_back(facts, instance) or GIVEN_BACK
        if (most := instance.definition.max_per_node) is not None:
            text += f" Of its definition, one node has at most {most} at once."
    else:
        text = f"It is due at {due}{_by_jitter(instance)}, in {soon}."
        because, since = Because.PENDING, None
    text += but_nobody_would(facts)
    return _why(
        facts,
        instance,
        because,
        text,
        since=since,
        until=instance.due_at,
        reason=facts.given_back.get(instance.id, instance.error),
    )


def _by_jitter(instance: TaskInstance) -> str:
    """Why a first run is due later than its fire time, if it is by its jitter."""
    fire_time, jitter = instance.fire_time, instance.definition.jitter
    if fire_time is None or jitter is None or instance.runs:
        return ""
    return " by its jitter" if instance.execute_at > fire_time else ""


def paused(facts: Facts, instance: TaskInstance | None) -> Why:
    """That nothing starts, as the definition is paused."""
    note, since = facts.definition.note, facts.definition.paused_at
    text = (
        f"It is paused since {_time(facts, since)}"
        f" ({note or 'there is no note'}), so that nothing of it starts until it is"
        " resumed."
    )
    text += _after_pause(facts) if instance is None else _before(instance)
    return Why(
        definition_id=facts.definition.id,
        at=facts.at,
        because=Because.PAUSED,
        text=text,
        instance=instance,
        since=since,
        reason=note,
    )


def _after_pause(facts: Facts) -> str:
    """What a definition would do if it were resumed."""
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
    """Which instance waits for the end of a pause."""
    due = facts.times(instance.due_at)
    return f"Instance {instance.id}, due at {due}, waits for that.{_before(instance)}"


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
    return _why(
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
    text += f"{given_back(facts, instance)}{_before(instance)}"
    return _why(
        facts,
        instance,
        Because.WAITS_FOR_NODE,
        text,
        since=due,
        reason=facts.given_back.get(instance.id, instance.error),
    )


def _run_of(facts: Facts, instance: TaskInstance) -> str:
    """When and where the last run was."""
    text = f"It was due at {facts.times(instance.execute_at)}"
    started, ended = instance.started_at, instance.completed_at
    if started is None or ended is None:
        return f"{text}, and was not called."
    late = started - instance.due_at
    lateness = f"{length(late)} late" if late >= _ON_TIME else "on time"
    return (
        f"{text}; its last run started at {facts.times(started)}, {lateness}, on"
        f" {_owner(facts, instance)}, as attempt"
        f" {instance.ended_attempt or instance.attempt}, and took"
        f" {length(ended - started)}."
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
    return f" Its claim holds until {_time(facts, until)}, and is renewed until then."


def _owner(facts: Facts, instance: TaskInstance) -> str:
    node = node_text(facts.node(instance.claimed_by), instance.claimed_by)
    if instance.worker is None:
        return node
    return f"the worker {shown(instance.worker)}, to which it was handed by {node}"


def _before(instance: TaskInstance) -> str:
    """What came of the runs before the present one, or the next."""
    # One that has failed and is to run again counts its runs anew.
    if instance.runs > (instance.state in RUNS) or instance.error:
        return f" It has run before.{_last_error(instance)}"
    return ""


def _last_error(instance: TaskInstance) -> str:
    return "" if not instance.error else f" Last error: {summary(instance.error)}."


def _time(facts: Facts, at: datetime | None) -> str:
    """A time that a row of this state has, unless it was changed by other means."""
    return "an unknown time" if at is None else facts.times(at)


def _why(
    facts: Facts, instance: TaskInstance, because: Because, text: str, **more: object
) -> Why:
    return Why(
        definition_id=facts.definition.id,
        at=facts.at,
        because=because,
        text=text,
        instance=instance,
        node=facts.node(instance.claimed_by),
        **more,  # type: ignore[arg-type]
    )


_BY_STATE: Mapping[State, Callable[[Facts, TaskInstance], Why]] = {
    State.COMPLETED: _completed,
    State.FAILED: _failed,
    State.CANCELLED: _cancelled,
    State.SKIPPED: _skipped,
    **dict.fromkeys(RUNS, _running),
    State.CLAIMED: _held,
    State.PENDING: _pending,
}
