"""What there is to say of an instance that has ended."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.why.answer import Because, Why
from go_scheduler.why.instance_words import last_error, time_of, who_has, why_of
from go_scheduler.why.words import length

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.why.facts import Facts

# Less than this is no lateness.
_ON_TIME = timedelta(milliseconds=1)


def completed(facts: Facts, instance: TaskInstance) -> Why:
    """That it has completed, and when and where it ran."""
    text = f"It has completed. {_run_of(facts, instance)}"
    if instance.runs > 1:
        text += f" It took {instance.runs} runs.{last_error(instance)}"
    return why_of(
        facts,
        instance,
        Because.COMPLETED,
        text,
        since=instance.started_at,
        until=instance.completed_at,
    )


def failed(facts: Facts, instance: TaskInstance) -> Why:
    """That it has failed, with its last error."""
    runs = "1 run" if instance.runs == 1 else f"{instance.runs} runs"
    last = _run_of(facts, instance)
    return why_of(
        facts,
        instance,
        Because.FAILED,
        f"It has failed, after {runs}.{last_error(instance)} {last}",
        since=instance.completed_at,
        reason=instance.error,
    )


def cancelled(facts: Facts, instance: TaskInstance) -> Why:
    """That it was cancelled, and when."""
    text = f"It was cancelled at {time_of(facts, instance.completed_at)}."
    return why_of(facts, instance, Because.CANCELLED, text, since=instance.completed_at)


def skipped(facts: Facts, instance: TaskInstance) -> Why:
    """That it was skipped, alone or with others, and for which reason."""
    record = instance.skipped
    if record is None:
        text = f"It was skipped at {time_of(facts, instance.completed_at)}."
        return why_of(
            facts, instance, Because.SKIPPED, text, since=instance.completed_at
        )
    first, last = facts.times(record.first), facts.times(record.last)
    what = "The fire time at" if instance.fire_time else "What was to run at"
    text = f"{what} {first} was skipped: {record.reason}."
    if record.count > 1:
        text = (
            f"{record.count} fire times were skipped, from {first} to {last}:"
            f" {record.reason}."
        )
    return why_of(
        facts,
        instance,
        Because.SKIPPED,
        text,
        since=record.first,
        until=record.last,
        reason=record.reason,
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
        f" {who_has(facts, instance)}, as attempt"
        f" {instance.ended_attempt or instance.attempt}, and took"
        f" {length(ended - started)}."
    )
