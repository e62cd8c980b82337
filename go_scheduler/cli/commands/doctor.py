"""The command `doctor`."""

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.connection import WhichStore, opened_store
from go_scheduler.cli.options import ExitCode, Json, duration_of, grouped, text
from go_scheduler.cli.output import document, line, table
from go_scheduler.stores.findings import Severity

if TYPE_CHECKING:
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
    _print(report, least, json=json)
    if not report.reached:
        raise typer.Exit(ExitCode.AWAY)
    raise typer.Exit(_CODES[report.worst])


def _print(report: "Report", least: Severity, *, json: bool) -> None:
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
