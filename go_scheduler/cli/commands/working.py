"""The command `worker`."""

from typing import Annotated, Any

import typer

from go_scheduler.cli.groups import grouped
from go_scheduler.cli.options import text
from go_scheduler.cli.output import line
from go_scheduler.cli.where import Where

app = typer.Typer()


@app.command()
@grouped
def worker(
    handler: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="A handler or a registry of handlers, such as myapp.jobs:registry.",
            show_default=False,
        ),
    ],
    where: Where,
    queues: Annotated[
        str | None,
        text("The queues that it serves, with commas between them."),
    ] = None,
    max_workers: Annotated[
        int | None, text("The most handlers that run at once.", metavar="COUNT")
    ] = None,
) -> None:
    """Run handlers of your own, as a node on a store or for a server, until a signal.

    At the first signal what runs is awaited; at the second it is left behind.
    """
    # Imported here: no other command needs all that a node is.
    from contextlib import closing

    from go_scheduler.cli.where import opened_store, tokens_for
    from go_scheduler.http.configuration.imported import imported
    from go_scheduler.http.configuration.loading import load_configuration
    from go_scheduler.http.logs import written_log
    from go_scheduler.http.worker import Worker
    from go_scheduler.scheduler import Scheduler

    given: dict[str, tuple[Any, object]] = {
        "--queues": (("scheduler", "queues"), queues),
        "--max-workers": (("scheduler", "max_workers"), max_workers),
    }
    said = {name: each for name, each in given.items() if each[1] is not None}
    settings = load_configuration(where.config, options=said).settings
    arguments = settings.scheduler.arguments()
    found: Any = imported(handler)
    queues_served = arguments["queues"]
    told = f"runs {handler} for the queues {', '.join(queues_served)}"
    with written_log(settings.log):
        if (server := where.server_url()) is not None:
            far = Worker(
                server,
                found,
                queues=queues_served,
                max_workers=arguments["max_workers"],
                token=tokens_for(server),
            )
            line(f"{told}, of {server}")
            far.run()
            return
        with closing(opened_store(where.url(), migrates=True)) as store:
            scheduler = Scheduler(found, store, **arguments)
            line(told)
            scheduler.run()
