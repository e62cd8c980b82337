"""The command `audit`."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.connection import Where
from go_scheduler.cli.options import (
    Definitions,
    ExitCode,
    Json,
    duration_of,
    grouped,
    instant_of,
    text,
)
from go_scheduler.cli.output import document, line, table
from go_scheduler.cli.resolve import definition_meant
from go_scheduler.formatting import utc_text
from go_scheduler.json import write_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from go_scheduler.audit import AuditedDefinition, AuditedTime

app = typer.Typer()


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
    name = audited.definition.name or audited.definition.id
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
