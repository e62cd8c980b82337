"""Prints plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from go_scheduler.cli.output import json_of
from go_scheduler.cli.showing import described, text_of
from go_scheduler.simulation.plans import values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from go_scheduler.models import TaskDefinition
    from go_scheduler.simulation import Plan


def lines_of(found: Plan) -> Iterable[str]:
    """The lines of a plan for people to read."""
    yield (
        f"{len(found.added)} to add, {len(found.changed)} to change,"
        f" {len(found.removed)} to {found.removal}, {len(found.unchanged)} unchanged"
    )
    for each in found.added:
        yield f"+ {_label(each)}  {described(each.trigger)}"
    for change in found.changed:
        yield f"~ {_label(change.after)}"
        for name, before, after in values_of(change):
            yield f"    {name}: {text_of(before) or '-'} -> {text_of(after) or '-'}"
    for each in found.removed:
        yield f"- {_label(each)}  {described(each.trigger)}"
    for reason in found.refused:
        yield f"! {reason}"


def _label(definition: TaskDefinition) -> str:
    return f"{definition.id}  {definition.name or '-'}"


def document_of(found: Plan) -> Mapping[str, Any]:
    """A plan as JSON."""
    return {
        "owner": found.owner,
        "added": [json_of(each) for each in found.added],
        "changed": [
            {
                "before": json_of(each.before),
                "after": json_of(each.after),
                "fields": list(each.fields),
            }
            for each in found.changed
        ],
        "removed": [json_of(each) for each in found.removed],
        "removal": found.removal,
        "unchanged": [str(each.id) for each in found.unchanged],
        "refused": list(found.refused),
    }
