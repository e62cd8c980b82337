"""The commands `import` and `export`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from go_scheduler.cli.connection import Where
from go_scheduler.cli.options import (
    ExitCode,
    Json,
    Metadata,
    Name,
    Queue,
    argument,
    duration_of,
    grouped,
    instant_of,
    object_of,
    text,
)
from go_scheduler.cli.output import document, note, print_one
from go_scheduler.client.arguments import MOST_LISTED
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.models import DefinitionState
from go_scheduler.stores.filters import all_items

if TYPE_CHECKING:
    from go_scheduler.http.jobs.jitter import Spread

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class JitterOptions:
    """The options for the times of jobs and definitions without a time."""

    start: Annotated[
        str | None, text("When the first one runs; default: now.", metavar="TIME")
    ] = None
    window: Annotated[
        str | None, text("The time over which they are spread evenly, such as 1h.")
    ] = None
    interval: Annotated[str | None, text("The time from one to the next.")] = None
    jitter: Annotated[str | None, text("The largest random delay of each.")] = None

    def spread(self) -> "Spread":
        """The spread of the options.

        Raises:
            ConfigurationError: An option is wrong.
        """
        # Imported here, as it takes long.
        from go_scheduler.http.jobs.jitter import Spread

        if self.window is not None and self.interval is not None:
            raise ConfigurationError("say --window or --interval, not both")
        return Spread(
            start=instant_of(self.start, "--start"),
            window=duration_of(self.window, "--window"),
            interval=duration_of(self.interval, "--interval"),
            jitter=duration_of(self.jitter, "--jitter"),
        )


@app.command("import")
@grouped
def import_(
    file: Annotated[
        Path,
        argument(
            "JSON lines, each a definition or a job, or a JSON array of them; - is"
            " standard input.",
            "FILE",
        ),
    ],
    where: Where,
    spreading: JitterOptions,
    name: Annotated[
        str | None,
        text(
            "The name of the import: repeated with the same name, it"
            " makes nothing twice.",
            "--import",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Schedule definitions and submit jobs, one on each line of a file.

    A wrong line is reported and left out. With --import, or with ids and keys, the
    same lines may be imported again.
    """
    from go_scheduler.cli.importing import Imported, lines_of, parts_of
    from go_scheduler.cli.in_process import answering

    spread = spreading.spread()
    name = name or uuid4().hex
    with (
        where.client(migrates=True) as client,
        answering(client) as remote,
        lines_of(file) as (stream, settled),
    ):
        called, lines = parts_of(stream)
        imported = Imported(client, remote, name, spread, called)
        try:
            for problems in imported.take(lines):
                settled(imported.size)
                for each in problems:
                    note(each)
        except (StoreError, KeyboardInterrupt):
            note(
                "what is in stays: go on with the same file by --import"
                f" {name}, and nothing is made twice"
            )
            raise
    print_one(imported.counts, _summary(imported.counts), json=json)
    if imported.counts["wrong"]:
        raise typer.Exit(ExitCode.NOT_SO)


@app.command()
@grouped
def export(
    where: Where, name: Name = None, queue: Queue = None, metadata: Metadata = None
) -> None:
    """Print definitions as JSON lines, from which `import` makes them anew.

    Those that have completed are left out.
    """
    filters: dict[str, Any] = {
        "name": name,
        "queue": queue,
        "metadata": object_of(metadata, "--metadata"),
    }
    # Imported here, as it takes long.
    from go_scheduler.http.bodies.definitions import DefinitionBody

    with where.client() as client:
        read = partial(client.list_definitions, **filters, limit=MOST_LISTED)
        for each in all_items(read):
            # An import of what has ended would run it again.
            if each.state is DefinitionState.COMPLETED:
                continue
            given = DefinitionBody.of(each).items()
            document({field: value for field, value in given if value is not None})


def _summary(counts: Mapping[str, int]) -> str:
    """Such as ``made 1 definition and 2 jobs; 3 known, 0 wrong``."""
    made, others = list(counts.items())[:2], list(counts.items())[2:]
    first = " and ".join(
        f"{n} {what.removesuffix('s') if n == 1 else what}" for what, n in made
    )
    told = [f"{n} {what}" for what, n in others if n or what != "dropped"]
    return f"made {first}; {', '.join(told)}"
