"""The commands `doctor`, `audit` and `migrate`."""

from contextlib import closing
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.connection import (
    SchemaBehindError,
    Where,
    WhichStore,
    opened_store,
    scheme_of,
)
from go_scheduler.cli.options import (
    Definitions,
    ExitCode,
    Json,
    duration_of,
    grouped,
    instant_of,
    text,
)
from go_scheduler.cli.output import document, line, note, table
from go_scheduler.cli.resolve import definition_meant
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import utc_text
from go_scheduler.json import write_instant
from go_scheduler.stores.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from go_scheduler.audit import AuditedDefinition, AuditedTime
    from go_scheduler.doctor import Report


app = typer.Typer()

_CODES = {
    Severity.OK: ExitCode.DONE,
    Severity.NOTICE: ExitCode.DONE,
    Severity.WARNING: ExitCode.NOT_SO,
    Severity.ERROR: ExitCode.USAGE,
}


@app.command()
@grouped
def doctor(
    where: WhichStore,
    handlers: Annotated[
        str | None,
        text(
            "The handlers, such as myapp.jobs:registry, to say whether any is missing.",
            metavar="MODULE:NAME",
        ),
    ] = None,
    least: Annotated[
        Severity, typer.Option("--least", help="The least severity to show.")
    ] = Severity.OK,
    most: Annotated[
        int, typer.Option("--most", min=1, help="The most definitions to look at.")
    ] = 10_000,
    expire_after: Annotated[
        str | None, text("The expire_after of the schedulers; default: 5m.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what is wrong with a store and its schedule, and what to do about it.

    It only reads. The exit code is 0 if all is well, 1 after a warning, 2 after an
    error, and 3 if the store cannot be reached.
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
            document(asdict(each) | {"severity": each.severity.value})
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
@grouped
def audit(
    where: Where,
    definitions: Definitions = None,
    since: Annotated[str | None, text("The first instant; default: a day ago.")] = None,
    until: Annotated[str | None, text("The end, exclusive; default: now.")] = None,
    retention: Annotated[
        str | None, text("The retention of the schedulers; default: 1d.")
    ] = None,
    late: Annotated[
        str, text("A run that begins later than its time by more than this is late.")
    ] = "1s",
    unchanged_since: Annotated[
        str | None,
        text("A time since when nobody has changed a trigger.", metavar="TIME"),
    ] = None,
    handlers: Annotated[
        str | None,
        text(
            "The handlers, such as myapp.jobs:registry, to know their own triggers.",
            metavar="MODULE:NAME",
        ),
    ] = None,
    times: Annotated[
        bool,
        typer.Option(
            "--times", help="Show every fire time, and not only the broken ones."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Say of every fire time that has passed what became of it.

    It only reads. The exit code is 0 if no promise was broken. It is 1 if a fire time
    was missed, doubled, early, or is none of its trigger's, or if a definition could
    not be audited. It is 3 if the store or the server cannot be reached.
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
    name = audited.definition.label or audited.definition.id
    line(f"{name}: {audited.error or audited.note or counts or 'no fire times'}")
    shown = audited.times if times else audited.broken
    if shown:
        table(("FIRE TIME", "VERDICT", "WHY"), [*_rows(shown)])


def _rows(times: "Iterable[AuditedTime]") -> "Iterator[tuple[str, str, str]]":
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
    counts = audited.counts
    document(
        {
            "id": f"{audited.definition.id}",
            "key": audited.definition.key,
            "name": audited.definition.name,
            "counts": {each.value: count for each, count in counts.items()},
            "note": audited.note,
            "error": audited.error,
            "times": [
                {
                    "fire_time": write_instant(each.at),
                    "verdict": each.verdict.value,
                    "late": None if each.late is None else each.late.total_seconds(),
                    "reason": each.reason,
                    "instance": each.instance_id and f"{each.instance_id}",
                }
                for each in shown
            ],
        }
    )


@app.command()
@grouped
def migrate(
    where: WhichStore,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether it is up to date.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Only print the SQL, for others to run.")
    ] = False,
    since: Annotated[
        str | None,
        text("With --show: the revision that the database is at.", metavar="REVISION"),
    ] = None,
) -> None:
    """Bring the schema of a store up to date."""
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
