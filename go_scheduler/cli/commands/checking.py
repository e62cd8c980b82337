"""The commands `simulate`, `plan`, `doctor`, `audit` and `migrate`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.options import (
    Application,
    Definitions,
    ExitCode,
    Json,
    Name,
    Queue,
    SchemaBehindError,
    Time,
    Where,
    WhichStore,
    Yes,
    argument,
    duration_of,
    instant_of,
    opened_store,
    scheme_of,
    text,
)
from go_scheduler.cli.output import (
    at,
    confirm,
    described,
    document,
    line,
    note,
    print_one,
    table,
    text_of,
)
from go_scheduler.cli.selecting import definition_meant, pages
from go_scheduler.client import Client
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import ConfigurationError, UnknownTriggerError
from go_scheduler.formatting import utc_text, write_duration
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.stores.findings import Severity

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.audit import AuditedDefinition, AuditedTime
    from go_scheduler.doctor import Report
    from go_scheduler.simulation import Effect, FaultReport, Plan, Simulated, Simulation


app = Application()


@dataclass(frozen=True, kw_only=True)
class Simulating:
    """The options of a simulation.

    Attributes:
        start: The first instant; default: now.
        span: How long a time, such as 12h.
        duration: How long each run takes; default: as long as the last runs took.
        workers: The most runs at once of all nodes together.
        most: The most fire times to simulate.
    """

    start: Time = None
    span: Annotated[str, text()] = "7d"
    duration: str | None = None
    workers: Annotated[int | None, typer.Option(min=1)] = None
    most: Annotated[int, typer.Option(min=1)] = 200_000


@dataclass(frozen=True, kw_only=True)
class WithFaults:
    """The options of a simulation with faults.

    Attributes:
        faults: Run it on simulated nodes while calls, clocks and nodes fail, and say
            whether all promises hold; for 20m from 2030-01-01 on, unless --span and
            --start say otherwise.
        seed: With --faults: the seed, which decides what fails.
        seeds: With --faults: how many seeds to try, from --seed on.
        nodes: With --faults: how many nodes there are.
    """

    faults: bool = False
    seed: int = 1
    seeds: Annotated[int, typer.Option(min=1)] = 1
    nodes: Annotated[int, typer.Option(min=1)] = 3


@app.command("simulate")
def simulate_(
    context: typer.Context,
    simulating: Simulating,
    with_faults: WithFaults,
    where: Where,
    source: Annotated[str | None, argument("[SOURCE]")] = None,
    name: Name = None,
    queue: Queue = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    json: Json = False,
) -> None:
    """Show what would run over the next week, or another time, without running it.

    It reads from the store how long the last runs took, and writes nothing.

    Args:
        source: The definitions, instead of those of the store: myapp.jobs:definitions,
            or a file of JSON lines.
        svg: Also draw it as a picture, into this file.
    """
    # Imported here: no other command needs it.
    from go_scheduler.simulation import durations_of, picture, simulate

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
        _draw(svg, picture(simulation))
    _show(simulation, json=json)


def _try_seeds(
    definitions: Iterable[TaskDefinition],
    with_faults: WithFaults,
    *,
    json: bool,
    **given: Any,
) -> None:
    """Simulate by one seed after another, and end with 1 if a promise is broken."""
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
        _show_faults(report, json=json)
        held = held and not report.problems
    if not held:
        raise typer.Exit(ExitCode.NOT_SO)


@app.command()
def plan(
    source: Annotated[str, argument("SOURCE")],
    where: WhichStore,
    owner: str,
    removed: Annotated[str, text()] = "delete",
    adopt: bool = False,
    version: int | None = None,
    check: bool = False,
    apply: bool = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Show what declaring a set of definitions would change, before it is declared.

    Args:
        source: The set: myapp.jobs:definitions, or a file of JSON lines.
        owner: The owner of the set.
        removed: What happens to definitions that are not in it any more: delete, pause
            or keep.
        adopt: Take in definitions that are in no set.
        version: With --apply: the version of the set.
        check: Exit with 1 if anything would change.
        apply: Declare the set.
    """
    # Imported here: no other command needs them.
    from go_scheduler.cli.importing import declared
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
        print_one(_plan_document(found), "\n".join(_plan_lines(found)), json=json)
        if apply:
            if found.removal != "keep":
                count = len(found.removed)
                confirm(f"{found.removal} {count} definitions", count, yes=yes)
            applied = client.declare(definitions, version=version, **given)
            if definitions and not applied:
                note("nothing was done: a later version of the set has been declared")
                raise typer.Exit(ExitCode.NOT_SO)
            tell = note if json else line
            tell("it has been declared")
    if check and not found.changes_nothing:
        raise typer.Exit(ExitCode.NOT_SO)


_MILLISECOND = timedelta(milliseconds=1)


def _draw(file: Path, picture: str) -> None:
    try:
        file.write_text(picture)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written: {error.strerror}"
        ) from None


def _show(simulation: "Simulation", *, json: bool) -> None:
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


def _definition(simulated: "Simulated") -> Mapping[str, Any]:
    definition, starts = simulated.definition, simulated.starts
    return {
        "definition_id": definition.id,
        "definition_key": definition.key,
        "name": definition.name,
        "queue": definition.queue,
        "fires": simulated.fires,
        "skipped": simulated.skipped,
        "waited": simulated.waited,
        "longest_wait": simulated.longest_wait,
        "most_at_once": simulated.most_at_once,
        "duration": simulated.duration,
        "first": starts[0] if starts else None,
        "last": starts[-1] if starts else None,
        "effects": _effects(simulated.effects),
        "warnings": simulated.warnings,
    }


def _all(simulation: "Simulation") -> Mapping[str, Any]:
    return {
        "start": simulation.start,
        "end": simulation.end,
        "fires": simulation.fires,
        "most_at_once": simulation.most_at_once,
        "most_at_once_at": simulation.most_at_once_at,
        "short_minutes": simulation.short_minutes,
        "minutes": [*simulation.minutes.items()],
        "changes": _effects(simulation.changes),
        "warnings": simulation.warnings,
    }


def _effects(effects: Sequence["Effect"]) -> Sequence[Mapping[str, Any]]:
    return [{"at": each.at, "text": each.text} for each in effects]


def _plan_lines(found: "Plan") -> Iterable[str]:
    """The lines of a plan for people to read."""
    # Imported here: no other command needs it.
    from go_scheduler.simulation.plans import values_of

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


def _plan_document(found: "Plan") -> Mapping[str, Any]:
    """A plan as JSON."""
    return {
        "owner": found.owner,
        "added": found.added,
        "changed": [
            {"before": each.before, "after": each.after, "fields": each.fields}
            for each in found.changed
        ],
        "removed": found.removed,
        "removal": found.removal,
        "unchanged": [each.id for each in found.unchanged],
        "refused": found.refused,
    }


def _show_faults(report: "FaultReport", *, json: bool) -> None:
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


_CODES = {
    Severity.OK: ExitCode.DONE,
    Severity.NOTICE: ExitCode.DONE,
    Severity.WARNING: ExitCode.NOT_SO,
    Severity.ERROR: ExitCode.USAGE,
}


@app.command()
def doctor(
    where: WhichStore,
    handlers: Annotated[str | None, text(metavar="MODULE:NAME")] = None,
    least: Severity = Severity.OK,
    most: Annotated[int, typer.Option(min=1)] = 10_000,
    expire_after: str | None = None,
    json: Json = False,
) -> None:
    """Say what is wrong with a store and its schedule, and what to do about it.

    It only reads. The exit code is 0 if all is well, 1 after a warning, 2 after an
    error, and 3 if the store cannot be reached.

    Args:
        handlers: The handlers, such as myapp.jobs:registry, to say whether any is
            missing.
        least: The least severity to show.
        most: The most definitions to look at.
        expire_after: The expire_after of the schedulers; default: 5m.
    """
    # Imported here: no other command needs them.
    from go_scheduler.doctor import diagnose
    from go_scheduler.http.configuration.imported import imported

    given: dict[str, Any] = {"most": most}
    if handlers is not None:
        given["handlers"] = imported(handlers)
    if (longest := duration_of(expire_after, "--expire-after")) is not None:
        given["expire_after"] = longest
    with closing(opened_store(where.url(), migrates=True)) as store:
        report = diagnose(store, **given)
    _print_report(report, least, json=json)
    if not report.reached:
        raise typer.Exit(ExitCode.AWAY)
    raise typer.Exit(_CODES[report.worst])


def _print_report(report: "Report", least: Severity, *, json: bool) -> None:
    found = [each for each in report.findings if each.severity.rank >= least.rank]
    if json:
        for each in found:
            document(asdict(each))
        return
    if not found:
        line(f"nothing was found that matters as much as {least.value} or more")
        return
    rows = [(each.severity.value, each.name, each.seen) for each in found]
    table(("SEVERITY", "FINDING", "SEEN"), rows)
    for each in found:
        if each.remedy is not None:
            line(f"\n{each.name}: {each.remedy}")
        if each.statement is not None:
            line(f"    {each.statement}")


@app.command()
def audit(
    where: Where,
    definitions: Definitions = None,
    since: str | None = None,
    until: str | None = None,
    retention: str | None = None,
    late: Annotated[str, text()] = "1s",
    unchanged_since: Time = None,
    handlers: Annotated[str | None, text(metavar="MODULE:NAME")] = None,
    times: bool = False,
    json: Json = False,
) -> None:
    """Say of every fire time that has passed what became of it.

    It only reads. The exit code is 0 if no promise was broken. It is 1 if a fire time
    was missed, doubled, early, or is none of its trigger's, or if a definition could
    not be audited. It is 3 if the store or the server cannot be reached.

    Args:
        since: The first instant; default: a day ago.
        until: The end, exclusive; default: now.
        retention: The retention of the schedulers; default: 1d.
        late: A run that begins later than its time by more than this is late.
        unchanged_since: A time since when nobody has changed a trigger.
        handlers: The handlers, such as myapp.jobs:registry, to know their own triggers.
        times: Show every fire time, and not only the broken ones.
    """
    if handlers is not None:
        # Imported here: few need it.
        from go_scheduler.http.configuration.imported import imported

        imported(handlers)
    given: dict[str, Any] = {"late": duration_of(late, "--late")}
    if (kept := duration_of(retention, "--retention")) is not None:
        given["retention"] = kept
    if (known := instant_of(unchanged_since, "--unchanged-since")) is not None:
        given["unchanged_since"] = known
    begin, end = instant_of(since, "--since"), instant_of(until, "--until")
    broken = False
    with where.client() as client:
        if definitions:
            given["ids"] = [definition_meant(client, each) for each in definitions]
        for each in client.audit(begin, end, **given):
            broken |= bool(each.broken or each.error)
            if json:
                _print_json(each, times=times)
            else:
                _print(each, times=times)
    raise typer.Exit(ExitCode.NOT_SO if broken else ExitCode.DONE)


def _print(audited: "AuditedDefinition", *, times: bool) -> None:
    """A line for the definition, and one for each fire time that is to be shown."""
    counts = ", ".join(
        f"{count} {verdict.value}" for verdict, count in audited.counts.items()
    )
    said = audited.error or audited.note or counts or "no fire times"
    line(f"{_label(audited.definition)}: {said}")
    shown = audited.times if times else audited.broken
    if shown:
        table(("FIRE TIME", "VERDICT", "WHY"), [*_rows(shown)])


def _rows(times: Iterable["AuditedTime"]) -> "Iterator[tuple[str, str, str]]":
    """A row for each fire time; one for all that follow each other and are unknown."""
    for (unknown, reason), found in groupby(times, _unknown):
        if not unknown:
            for each in found:
                yield utc_text(each.at), each.verdict.value, each.reason or ""
            continue
        first, *others = found
        at, why = utc_text(first.at), reason
        if others:
            at = f"{at} to {utc_text(others[-1].at)}"
            why = f"{len(others) + 1:,} times: {reason}"
        yield at, first.verdict.value, why


def _unknown(each: "AuditedTime") -> tuple[bool, str]:
    is_unknown = each.verdict.value == "unknown"
    return is_unknown, (each.reason or "") if is_unknown else ""


def _print_json(audited: "AuditedDefinition", *, times: bool) -> None:
    shown = audited.times if times else audited.broken
    document(
        {
            "id": audited.definition.id,
            "key": audited.definition.key,
            "name": audited.definition.name,
            "counts": audited.counts,
            "note": audited.note,
            "error": audited.error,
            "times": [
                {
                    "fire_time": each.at,
                    "verdict": each.verdict,
                    "late": each.late,
                    "reason": each.reason,
                    "instance": each.instance_id,
                }
                for each in shown
            ],
        }
    )


@app.command()
def migrate(
    where: WhichStore,
    check: bool = False,
    show: bool = False,
    since: Annotated[str | None, text(metavar="REVISION")] = None,
) -> None:
    """Bring the schema of a store up to date.

    Args:
        check: Only say whether it is up to date.
        show: Only print the SQL, for others to run.
        since: With --show: the revision that the database is at.
    """
    from go_scheduler.stores.sql.schema import schema_sql

    if check and show:
        raise ConfigurationError("say --check or --show, not both")
    if since is not None and not show:
        raise ConfigurationError("--since is of use with --show only")
    url = where.url()
    if show:
        sql = schema_sql(scheme_of(url), since=since)
        line(sql.rstrip("\n") or "-- it is up to date")
        return
    try:
        with closing(opened_store(url, migrates=not check)) as store:
            store.initialize()
    except SchemaBehindError as error:
        note(str(error))
        raise typer.Exit(ExitCode.NOT_SO) from None
    line("the schema is up to date")
