"""The commands `simulate` and `plan`."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.connection import Where, WhichStore, opened_store
from go_scheduler.cli.filters import pages
from go_scheduler.cli.options import (
    ExitCode,
    Json,
    Name,
    Queue,
    Yes,
    argument,
    duration_of,
    grouped,
    instant_of,
    text,
)
from go_scheduler.cli.output import confirm, line, note, print_one
from go_scheduler.client import Client
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import ConfigurationError, UnknownTriggerError
from go_scheduler.models import DefinitionState, TaskDefinition

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.simulation import Plan

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class Simulating:
    """The options of a simulation."""

    start: Annotated[
        str | None, text("The first instant; default: now.", metavar="TIME")
    ] = None
    span: Annotated[str, text("How long a time, such as 12h.")] = "7d"
    duration: Annotated[
        str | None,
        text("How long each run takes; default: as long as the last runs took."),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="The most runs at once of all nodes together."),
    ] = None
    most: Annotated[
        int, typer.Option(min=1, help="The most fire times to simulate.")
    ] = 200_000


@dataclass(frozen=True, kw_only=True)
class WithFaults:
    """The options of a simulation with faults."""

    faults: Annotated[
        bool,
        typer.Option(
            "--faults",
            help="Run it on simulated nodes while calls, clocks and nodes fail, and say"
            " whether all promises hold; for 20m from 2030-01-01 on, unless --span and"
            " --start say otherwise.",
        ),
    ] = False
    seed: Annotated[
        int, typer.Option(help="With --faults: the seed, which decides what fails.")
    ] = 1
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="With --faults: how many seeds to try, from --seed on."
        ),
    ] = 1
    nodes: Annotated[
        int, typer.Option(min=1, help="With --faults: how many nodes there are.")
    ] = 3


@app.command("simulate")
@grouped
def simulate_(
    context: typer.Context,
    simulating: Simulating,
    with_faults: WithFaults,
    where: Where,
    source: Annotated[
        str | None,
        argument(
            "The definitions, instead of those of the store:"
            " myapp.jobs:definitions, or a file of JSON lines.",
            "[SOURCE]",
        ),
    ] = None,
    name: Name = None,
    queue: Queue = None,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw it as a picture, into this file."),
    ] = None,
    json: Json = False,
) -> None:
    """Show what would run over the next week, or another time, without running it.

    It reads from the store how long the last runs took, and writes nothing.
    """
    # Imported here: no other command needs it.
    from go_scheduler.cli.simulations import draw, show
    from go_scheduler.simulation import durations_of, simulate

    duration = duration_of(simulating.duration, "--duration")
    durations: timedelta | Mapping[UUID, timedelta] = duration or ZERO
    start = instant_of(simulating.start, "--start") or SystemClock().now()
    with ExitStack() as stack:
        if source is not None:
            from go_scheduler.cli.importing import declared

            if name is not None or queue is not None:
                raise ConfigurationError("--name and --queue are for what is stored")
            found = declared(source, start)
        else:
            client = stack.enter_context(where.client())
            filters: dict[str, Any] = {"name": name, "queue": queue}
            stored, _ = pages(client.list_definitions, filters, None)
            # There may be any number of completed one-offs and single jobs.
            ended = DefinitionState.COMPLETED
            found = [each for each in stored if each.state is not ended]
            if duration is None:
                durations = durations_of(client, found)
    if with_faults.faults:
        if svg is not None or simulating.workers is not None:
            raise ConfigurationError("--svg and --workers are for none with --faults")
        source_of_span = context.get_parameter_source("span")
        is_said = source_of_span is not None and source_of_span.name != "DEFAULT"
        _try_seeds(
            found,
            with_faults,
            span=duration_of(simulating.span if is_said else "20m", "--span") or ZERO,
            durations=durations or timedelta(seconds=5),
            json=json,
            # Without it, one that is the same at each call.
            **({} if simulating.start is None else {"start": start}),
        )
        return
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


def _try_seeds(
    definitions: Iterable[TaskDefinition],
    with_faults: WithFaults,
    *,
    json: bool,
    **given: Any,
) -> None:
    """Simulate by one seed after another, and end with 1 if a promise is broken."""
    from go_scheduler.cli.simulations import show_faults
    from go_scheduler.simulation import simulate_faults

    held = True
    definitions = list(definitions)
    for seed in range(with_faults.seed, with_faults.seed + with_faults.seeds):
        try:
            report = simulate_faults(
                definitions, seed=seed, nodes=with_faults.nodes, **given
            )
        except UnknownTriggerError as error:
            raise ConfigurationError(
                f"{error}: say the module that has it, such as myapp.jobs:definitions"
            ) from error
        show_faults(report, json=json)
        held = held and not report.problems
    if not held:
        raise typer.Exit(ExitCode.NOT_SO)


@app.command()
@grouped
def plan(
    source: Annotated[
        str,
        argument("The set: myapp.jobs:definitions, or a file of JSON lines.", "SOURCE"),
    ],
    where: WhichStore,
    owner: Annotated[str, text("The owner of the set.")],
    removed: Annotated[
        str,
        text(
            "What happens to definitions that are not in it any more:"
            " delete, pause or keep."
        ),
    ] = "delete",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take in definitions that are in no set.")
    ] = False,
    version: Annotated[
        int | None, typer.Option(help="With --apply: the version of the set.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if anything would change.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Declare the set.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Show what declaring a set of definitions would change, before it is declared."""
    # Imported here: no other command needs them.
    from go_scheduler.cli.importing import declared
    from go_scheduler.cli.simulations import plan_document, plan_lines
    from go_scheduler.simulation import plan as planned

    if check and apply:
        raise ConfigurationError("say --check or --apply, not both")
    if version is not None and not apply:
        raise ConfigurationError("--version is of use with --apply only")
    given: dict[str, Any] = {"owner": owner, "removed": removed, "adopt": adopt}
    definitions = declared(source, SystemClock().now())
    with closing(opened_store(where.url(), migrates=apply)) as store:
        client = Client(store)
        found = planned(client, definitions, **given)
        print_one(plan_document(found), "\n".join(plan_lines(found)), json=json)
        if apply:
            _apply(client, found, definitions, yes=yes, given=given, version=version)
            tell = note if json else line
            tell("it has been declared")
    if check and not found.changes_nothing:
        raise typer.Exit(ExitCode.NOT_SO)


def _apply(
    client: Client,
    found: "Plan",
    definitions: Sequence[TaskDefinition],
    *,
    yes: bool,
    given: Mapping[str, Any],
    version: int | None,
) -> None:
    if found.removal != "keep":
        count = len(found.removed)
        confirm(f"{found.removal} {count} definitions", count, yes=yes)
    declared = client.declare(definitions, version=version, **given)
    if definitions and not declared:
        note("nothing was done: a later version of the set has been declared")
        raise typer.Exit(ExitCode.NOT_SO)
