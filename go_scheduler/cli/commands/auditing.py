"""The command `audit`."""

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
    times: Annotated[
        bool,
        typer.Option(
            "--times", help="Show every fire time, and not only the broken ones."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Say of every fire time that has passed what became of it.

    It only reads. The exit code is 0 if no promise was broken, 1 if a fire time was
    missed, doubled, early, or is none of its trigger's, and 3 if the store or the
    server cannot be reached.
    """
    given: dict[str, Any] = {"late": duration_of(late, "--late")}
    if (kept := duration_of(retention, "--retention")) is not None:
        given["retention"] = kept
    begin, end = instant_of(since, "--since"), instant_of(until, "--until")
    broken = False
    with where.client() as client:
        if definitions:
            given["ids"] = [definition_meant(client, each) for each in definitions]
        for each in client.audit(begin, end, **given):
            broken |= bool(each.broken)
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
    line(f"{name}: {audited.error or counts or 'no fire times'}")
    shown = audited.times if times else audited.broken
    if shown:
        table(("FIRE TIME", "VERDICT", "WHY"), [_row(each) for each in shown])


def _row(each: "AuditedTime") -> tuple[str, str, str]:
    return utc_text(each.at), each.verdict.value, each.reason or ""


def _print_json(audited: "AuditedDefinition", *, times: bool) -> None:
    shown = audited.times if times else audited.broken
    counts = audited.counts
    document(
        {
            "id": f"{audited.definition.id}",
            "name": audited.definition.name,
            "counts": {each.value: count for each, count in counts.items()},
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
