"""The command `import`."""

from pathlib import Path
from typing import Annotated

import typer

from go_scheduler.cli.exit_codes import ExitCode
from go_scheduler.cli.groups import grouped
from go_scheduler.cli.options import Json
from go_scheduler.cli.output import document, line, note
from go_scheduler.cli.where import Where

app = typer.Typer()


@app.command("import")
@grouped
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSON lines, each a definition or a job; - is standard input.",
            show_default=False,
        ),
    ],
    where: Where,
    json: Json = False,
) -> None:
    """Schedule definitions and submit jobs, one on each line of a file.

    A line that is wrong is told and left out. With ids and keys in them, the same lines
    may be imported again.
    """
    # Imported here: it takes as long as all of another command.
    from go_scheduler.cli.imported_lines import Imported
    from go_scheduler.cli.progress import lines_of

    with where.client(migrates=True) as client, lines_of(file) as lines:
        imported = Imported(client)
        for problem in imported.take(lines):
            note(problem)
    if json:
        document(imported.counts)
    else:
        line(", ".join(f"{count} {name}" for name, count in imported.counts.items()))
    if imported.counts["wrong"]:
        raise typer.Exit(ExitCode.NOT_SO)
