"""What there is to say of what has not begun: it is on a bus, or was given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.shown import shown
from go_scheduler.why.obstacles import but_nobody_would
from go_scheduler.why.words import node_text, summary

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.why.facts import Facts

_THEN = "Else it has failed, and any node takes it over."
_OVERDUE = (
    "That is overdue: a node that serves its queue takes it over, within about a sixth"
    " of its `lease`; one that has just started, or was without the store, after a"
    " whole one. It has failed then, and goes by its `retry`."
)


def not_begun(facts: Facts, instance: TaskInstance) -> str:
    """Since when it waits for whom, and until when; empty: it is no such run."""
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
    node = node_text(facts.node(instance.claimed_by), instance.claimed_by)
    waits = f"waits until {until} for a worker to accept it"
    if is_over:
        waits = f"was to be accepted by a worker by {until}"
    return f"It was published by {node}, and {waits}. {then}"


def given_back(instance: TaskInstance) -> str:
    """Why it was given back; empty: that is not known, or may not be said."""
    reason = instance.given_back
    return "" if reason is None else f" It was given back: {summary(reason)}."
