"""The command `simulate`."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.groups import grouped
from go_scheduler.cli.listing import pages
from go_scheduler.cli.options import Json, Name, Queue, text
from go_scheduler.cli.output import at, document, line, note, table
from go_scheduler.cli.reading import duration_of, instant_of
from go_scheduler.cli.where import Where
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.configuration.durations import write_duration
from go_scheduler.models import TaskDefinition
from go_scheduler.simulation import (
    Effect,
    Simulated,
    Simulation,
    durations_of,
    picture,
    simulate,
)

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class Simulating:
    """The options that say what is simulated, and how."""

    start: Annotated[
        str | None, text("From then on, instead of from now on.", metavar="TIME")
    ] = None
    span: Annotated[str, text("For so long, such as 12h.")] = "7d"
    duration: Annotated[
        str | None,
        text("How long every run lasts, instead of as long as the last ones did."),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="How many runs all nodes together take at once."),
    ] = None
    most: Annotated[
        int, typer.Option(min=1, help="Simulate so many fire times at most.")
    ] = 200_000


@app.command("simulate")
@grouped
def simulate_(
    simulating: Simulating,
    where: Where,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="Instead of what is stored: myapp.jobs:definitions, or a file of JSON"
            " lines.",
            show_default=False,
        ),
    ] = None,
    name: Name = None,
    queue: Queue = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it as a picture, too.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what would run over the next week, or another time, without running it.

    Of what is stored it is read how long the last runs took; nothing is written.
    """
    duration = duration_of(simulating.duration, "--duration")
    durations: timedelta | Mapping[UUID, timedelta] = duration or ZERO
    start = instant_of(simulating.start, "--start") or SystemClock().now()
    with ExitStack() as stack:
        if source is not None:
            from go_scheduler.cli.declared import declared

            if name is not None or queue is not None:
                raise ConfigurationError("--name and --queue are for what is stored")
            found = declared(source, start)
        else:
            client = stack.enter_context(where.client())
            filters: dict[str, Any] = {"name": name, "queue": queue}
            found, _ = pages(client.list_definitions, filters, None)
            if duration is None:
                durations = durations_of(client, found)
    simulation = simulate(
        found,
        start=start,
        span=duration_of(simulating.span, "--span") or ZERO,
        durations=durations,
        workers=simulating.workers,
        most=simulating.most,
    )
    if svg is not None:
        _draw(svg, simulation)
    _print(simulation, json=json)


def _draw(file: Path, simulation: Simulation) -> None:
    try:
        file.write_text(picture(simulation))
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written: {error.strerror}"
        ) from None


def _print(simulation: Simulation, *, json: bool) -> None:
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
            write_duration(each.duration),
            at(each.starts[0] if each.starts else None),
        )
        for each in simulation.definitions
    ]
    columns = ("DEFINITION", "FIRES", "SKIPPED", "WAIT", "AT ONCE", "LASTING", "FIRST")
    table(columns, rows)
    busiest = simulation.busiest
    line(
        f"\n{simulation.fires:,} fire times from {at(simulation.start)} to"
        f" {at(simulation.end)}, at most {simulation.most_at_once:,} run at once"
    )
    if busiest is not None:
        line(f"the busiest minute is {at(busiest[0])}, in which {busiest[1]:,} begin")
    for effect in simulation.changes:
        line(f"{at(effect.at)}  {effect.text}")
    for each in simulation.definitions:
        for effect in each.effects:
            line(f"{at(effect.at)}  {_label(each.definition)}: {effect.text}")
        for warning in each.warnings:
            note(f"beware: {_label(each.definition)}: {warning}")
    for warning in simulation.warnings:
        note(f"beware: {warning}")


def _label(definition: TaskDefinition) -> str:
    return definition.name or str(definition.id)


def _definition(simulated: Simulated) -> Mapping[str, Any]:
    definition, starts = simulated.definition, simulated.starts
    return {
        "definition_id": str(definition.id),
        "name": definition.name,
        "queue": definition.queue,
        "fires": simulated.fires,
        "skipped": simulated.skipped,
        "waited": simulated.waited,
        "longest_wait": simulated.longest_wait.total_seconds(),
        "most_at_once": simulated.most_at_once,
        "duration": simulated.duration.total_seconds(),
        "first": starts[0].isoformat() if starts else None,
        "last": starts[-1].isoformat() if starts else None,
        "effects": _effects(simulated.effects),
        "warnings": list(simulated.warnings),
    }


def _all(simulation: Simulation) -> Mapping[str, Any]:
    at = simulation.most_at_once_at
    return {
        "start": simulation.start.isoformat(),
        "end": simulation.end.isoformat(),
        "fires": simulation.fires,
        "most_at_once": simulation.most_at_once,
        "most_at_once_at": None if at is None else at.isoformat(),
        "short_minutes": simulation.short_minutes,
        "minutes": [
            [minute.isoformat(), count] for minute, count in simulation.minutes.items()
        ],
        "changes": _effects(simulation.changes),
        "warnings": list(simulation.warnings),
    }


def _effects(effects: Sequence[Effect]) -> Sequence[Mapping[str, str]]:
    return [{"at": each.at.isoformat(), "text": each.text} for each in effects]
