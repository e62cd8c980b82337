"""Prints simulations and plans."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.cli.output import (
    at,
    described,
    document,
    json_of,
    line,
    note,
    table,
    text_of,
)
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import write_duration
from go_scheduler.json import write_instant
from go_scheduler.simulation import picture
from go_scheduler.simulation.plans import values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from go_scheduler.models import TaskDefinition
    from go_scheduler.simulation import (
        Effect,
        FaultReport,
        Plan,
        Simulated,
        Simulation,
    )

_MILLISECOND = timedelta(milliseconds=1)


def draw(file: Path, simulation: Simulation) -> None:
    """Write the picture of a simulation.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    try:
        file.write_text(picture(simulation))
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written: {error.strerror}"
        ) from None


def show(simulation: Simulation, *, json: bool) -> None:
    """Print a simulation: a table, changes and warnings; or as JSON."""
    if json:
        for each in simulation.definitions:
            document(_definition(each))
        document(_all(simulation))
        return
    rows = [
        (
            _label(each.definition),
            f"{each.fires:,}",
            f"{each.skipped:,}",
            f"{each.waited:,}",
            str(each.most_at_once),
            write_duration(_rounded(each.duration)),
            at(each.starts[0] if each.starts else None),
        )
        for each in simulation.definitions
    ]
    columns = ("DEFINITION", "FIRES", "SKIPPED", "WAIT", "AT ONCE", "LASTING", "FIRST")
    table(columns, rows)
    busiest = simulation.busiest
    times = "fire time" if simulation.fires == 1 else "fire times"
    line(
        f"\n{simulation.fires:,} {times} from {at(simulation.start)} to"
        f" {at(simulation.end)}, at most {simulation.most_at_once:,} run at once"
    )
    if busiest is not None:
        begin = "begins" if busiest[1] == 1 else "begin"
        line(f"the busiest minute is {at(busiest[0])}, in which {busiest[1]:,} {begin}")
    for effect in simulation.changes:
        line(f"{at(effect.at)}  {effect.text}")
    for each in simulation.definitions:
        for effect in each.effects:
            line(f"{at(effect.at)}  {_label(each.definition)}: {effect.text}")
        for warning in each.warnings:
            note(f"beware: {_label(each.definition)}: {warning}")
    for warning in simulation.warnings:
        note(f"beware: {warning}")


def _rounded(duration: timedelta) -> timedelta:
    """A duration, rounded to milliseconds unless it is shorter."""
    rounded = round(duration / _MILLISECOND) * _MILLISECOND
    return rounded or duration


def _label(definition: TaskDefinition) -> str:
    return definition.label or str(definition.id)


def _definition(simulated: Simulated) -> Mapping[str, Any]:
    definition, starts = simulated.definition, simulated.starts
    return {
        "definition_id": str(definition.id),
        "definition_key": definition.key,
        "name": definition.name,
        "queue": definition.queue,
        "fires": simulated.fires,
        "skipped": simulated.skipped,
        "waited": simulated.waited,
        "longest_wait": simulated.longest_wait.total_seconds(),
        "most_at_once": simulated.most_at_once,
        "duration": simulated.duration.total_seconds(),
        "first": write_instant(starts[0]) if starts else None,
        "last": write_instant(starts[-1]) if starts else None,
        "effects": _effects(simulated.effects),
        "warnings": list(simulated.warnings),
    }


def _all(simulation: Simulation) -> Mapping[str, Any]:
    at = simulation.most_at_once_at
    return {
        "start": write_instant(simulation.start),
        "end": write_instant(simulation.end),
        "fires": simulation.fires,
        "most_at_once": simulation.most_at_once,
        "most_at_once_at": None if at is None else write_instant(at),
        "short_minutes": simulation.short_minutes,
        "minutes": [
            [write_instant(minute), count]
            for minute, count in simulation.minutes.items()
        ],
        "changes": _effects(simulation.changes),
        "warnings": list(simulation.warnings),
    }


def _effects(effects: Sequence[Effect]) -> Sequence[Mapping[str, str]]:
    return [{"at": write_instant(each.at), "text": each.text} for each in effects]


def plan_lines(found: Plan) -> Iterable[str]:
    """The lines of a plan for people to read."""
    yield (
        f"{len(found.added)} to add, {len(found.changed)} to change,"
        f" {len(found.removed)} to {found.removal}, {len(found.unchanged)} unchanged"
    )
    for each in found.added:
        yield f"+ {_id_and_name(each)}  {described(each.trigger)}"
    for change in found.changed:
        yield f"~ {_id_and_name(change.after)}"
        for name, before, after in values_of(change):
            yield f"    {name}: {text_of(before) or '-'} -> {text_of(after) or '-'}"
    for each in found.removed:
        yield f"- {_id_and_name(each)}  {described(each.trigger)}"
    for reason in found.refused:
        yield f"! {reason}"


def _id_and_name(definition: TaskDefinition) -> str:
    return f"{definition.id}  {definition.label or '-'}"


def plan_document(found: Plan) -> Mapping[str, Any]:
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


def show_faults(report: FaultReport, *, json: bool) -> None:
    """Print a simulation with faults: its verdict, and the fewest faults that fail."""
    shrunk = report.shrunk()
    if json:
        document(
            {
                "seed": report.seed,
                "instances": report.instances,
                "calls": report.calls,
                "faults": [str(each) for each in report.faults],
                "problems": [*report.problems],
                "shrunk": [str(each) for each in shrunk.faults],
            }
        )
        return
    what = (
        f"seed {report.seed}: {report.instances:,} instances, {report.calls:,} calls of"
        f" handlers, {len(report.faults):,} faults"
    )
    if not report.problems:
        line(f"{what}: all promises held")
        return
    line("\n".join([f"{what}", *(f"broken: {each}" for each in report.problems)]))
    line(f"these faults are enough for the first, of {len(report.faults):,}:")
    line("\n".join(f"  {each}" for each in shrunk.faults))
