"""Prints plans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.cli.documents import definition_document
from go_scheduler.cli.showing import described
from go_scheduler.formatting import write_duration
from go_scheduler.simulation.plans import values_of
from go_scheduler.triggers import Trigger

if TYPE_CHECKING:
    from collections.abc import Iterable

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
            yield f"    {name}: {_shown(before)} -> {_shown(after)}"
    for each in found.removed:
        yield f"- {_label(each)}  {described(each.trigger)}"
    for reason in found.refused:
        yield f"! {reason}"


def _label(definition: TaskDefinition) -> str:
    return f"{definition.id}  {definition.name or '-'}"


def _shown(value: object) -> str:
    if isinstance(value, Trigger):
        return described(value)
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    return "-" if value is None else str(value)


def document_of(found: Plan) -> Mapping[str, Any]:
    """A plan as JSON."""
    return {
        "owner": found.owner,
        "added": [definition_document(each) for each in found.added],
        "changed": [
            {
                "before": definition_document(each.before),
                "after": definition_document(each.after),
                "fields": list(each.fields),
            }
            for each in found.changed
        ],
        "removed": [definition_document(each) for each in found.removed],
        "removal": found.removal,
        "unchanged": [str(each.id) for each in found.unchanged],
        "refused": list(found.refused),
    }
