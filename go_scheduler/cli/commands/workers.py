"""The commands `worker` and `dispatch-worker`."""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.connection import Where, configuration, opened_store, tokens_for
from go_scheduler.cli.options import Handler, grouped, text
from go_scheduler.cli.output import line, note
from go_scheduler.errors import BusUnavailableError, ConfigurationError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from go_scheduler.dispatch.bus import MessageBus

app = typer.Typer()


@app.command()
@grouped
def worker(
    handler: Handler,
    where: Where,
    queues: Annotated[
        str | None,
        text("The queues that it serves, separated by commas."),
    ] = None,
    max_workers: Annotated[
        int | None, text("The most handlers that run at once.", metavar="COUNT")
    ] = None,
) -> None:
    """Run your own handlers, as a node on a store or as a worker of a server.

    At the first signal it waits for what runs; at the second it leaves that behind.
    """
    # Imported here: no other command needs all that a node is.
    from go_scheduler.http.configuration.imported import imported_handler
    from go_scheduler.http.logs import written_log
    from go_scheduler.http.worker import Worker
    from go_scheduler.scheduler import Scheduler

    options = {
        "--queues": ("scheduler.queues", queues),
        "--max-workers": ("scheduler.max_workers", max_workers),
    }
    settings = configuration(where.config, options)
    arguments = settings.scheduler.arguments()
    found: Any = imported_handler(handler)
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


@app.command()
def dispatch_worker(
    handler: Handler,
    bus: Annotated[
        str | None,
        text(
            "The bus, such as amqps://user:password@host; default: GO_SCHEDULER_BUS,"
            " where other users do not see the password, then dispatch.url of the"
            " configuration.",
            metavar="URL",
        ),
    ] = None,
    queues: Annotated[
        str | None,
        text(
            "The queues that it serves, separated by commas; default:"
            " the queue named default.",
            metavar="QUEUES",
        ),
    ] = None,
    max_workers: Annotated[
        int, typer.Option(metavar="COUNT", help="The most handlers that run at once.")
    ] = 32,
    limit: Annotated[
        list[str] | None,
        text("The most runs of one task at once; for several.", metavar="TASK=COUNT"),
    ] = None,
    topic_per_task: Annotated[
        str | None,
        text(
            "The tasks that have topics of their own, separated by"
            " commas; all: each task has one. Default: dispatch of the"
            " configuration.",
            metavar="TASKS",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        text(
            "The prefix of all topics, as for the dispatcher; default:"
            " dispatch of the configuration.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        text(
            "The name that is shown for it; each worker needs another one.",
            metavar="NAME",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The configuration, of which dispatch and log count; else"
            " ./go_scheduler.yaml, or the one at home.",
        ),
    ] = None,
) -> None:
    """Run your own handlers for schedulers on a message bus.

    At the first signal it waits for what runs; at the second it leaves that behind.
    """
    # Imported here: no other command needs a bus.
    from go_scheduler.dispatch.bus import open_bus
    from go_scheduler.dispatch.worker import DispatchWorker
    from go_scheduler.http.configuration.imported import imported_handler
    from go_scheduler.http.logs import written_log

    settings = configuration(config)
    dispatch = settings.dispatch
    kept = None if dispatch.url is None else dispatch.url.get_secret_value()
    if not (url := bus or os.environ.get("GO_SCHEDULER_BUS") or kept):
        raise ConfigurationError(
            "say which bus: --bus URL, GO_SCHEDULER_BUS, or dispatch.url in the"
            " configuration"
        )
    found: Any = imported_handler(handler)
    served = ["default"] if queues is None else _names(queues)
    topics: bool | Collection[str] = dispatch.topic_per_task
    if topic_per_task is not None:
        topics = topic_per_task == "all" or _names(topic_per_task)
    with written_log(settings.log), open_bus(url) as opened:
        worker = DispatchWorker(
            opened,
            found,
            queues=served,
            max_workers=max_workers,
            limits=_limits(limit or ()),
            topic_per_task=topics,
            namespace=dispatch.namespace if namespace is None else namespace,
            name=name,
        )
        if url.lower().startswith("memory:"):
            note("memory:// is within this process: nobody elsewhere publishes there")
        told = f"for the queues {', '.join(served)}"
        if queues is None:
            told = "for the queue default, as --queues names no other"
        line(f"{_begun(opened)} {handler} {told}")
        worker.run()


def _begun(bus: "MessageBus") -> str:
    """Check the bus; returns the beginning of the first message."""
    try:
        bus.check()
    except BusUnavailableError as error:
        if error.refused:
            raise
        return "once the bus is there, runs"
    return "runs"


def _names(listed: str) -> Sequence[str]:
    return [each.strip() for each in listed.split(",")]


def _limits(said: Sequence[str]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for each in said:
        task, equals, count = each.rpartition("=")
        if not equals or not count.isdecimal():
            raise ConfigurationError(
                f"--limit must be a task and a number, such as resize=2: {shown(each)}"
            )
        found[task] = int(count)
    return found
