"""The command `simulate`."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.groups import grouped
from go_scheduler.cli.listing import pages
from go_scheduler.cli.options import Json, Name, Queue, text
from go_scheduler.cli.reading import duration_of, instant_of
from go_scheduler.cli.where import Where
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import DefinitionState

if TYPE_CHECKING:
    from collections.abc import Mapping
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
    # Imported here: no other command needs it.
    from go_scheduler.cli.simulations import draw, show
    from go_scheduler.simulation import durations_of, simulate

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
            stored, _ = pages(client.list_definitions, filters, None)
            # Of one-offs that are over, and of single jobs, there may be any number.
            ended = DefinitionState.COMPLETED
            found = [each for each in stored if each.state is not ended]
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
        draw(svg, simulation)
    show(simulation, json=json)
