"""What is said of an instance in whatever state: who has it, and what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import RUNS
from go_scheduler.shown import shown
from go_scheduler.why.answer import Because, Why
from go_scheduler.why.words import node_text, summary

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.why.facts import Facts


def who_has(facts: Facts, instance: TaskInstance) -> str:
    """Who has it, or had it last: a node, or the worker that has it from one."""
    node = node_text(facts.node(instance.claimed_by), instance.claimed_by)
    if instance.worker is None:
        return node
    return f"the worker {shown(instance.worker)}, to which it was handed by {node}"


def before(instance: TaskInstance) -> str:
    """What came of the runs before the present one, or the next."""
    # One that has failed and is to run again counts its runs anew.
    if instance.runs > (instance.state in RUNS) or instance.error:
        return f" It has run before.{last_error(instance)}"
    return ""


def last_error(instance: TaskInstance) -> str:
    """What its last run that failed raised; empty: none has failed."""
    return "" if not instance.error else f" Last error: {summary(instance.error)}."


def time_of(facts: Facts, at: datetime | None) -> str:
    """A time that a row of this state has, unless it was changed by other means."""
    return "an unknown time" if at is None else facts.times(at)


def why_of(
    facts: Facts, instance: TaskInstance, because: Because, text: str, **more: object
) -> Why:
    """The answer, about an instance and the node that has it."""
    return Why(
        definition_id=facts.definition.id,
        at=facts.at,
        because=because,
        text=text,
        instance=instance,
        node=facts.node(instance.claimed_by),
        **more,  # type: ignore[arg-type]
    )
