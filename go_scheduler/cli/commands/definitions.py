"""The commands about definitions and instances that are there, such as `list`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated
from uuid import UUID

import typer

from go_scheduler.cli.options import (
    Application,
    Definition,
    Definitions,
    ExitCode,
    Instances,
    Json,
    Name,
    Time,
    Where,
    Yes,
    argument,
    duration_of,
    instant_of,
    object_of,
    text,
)
from go_scheduler.cli.output import (
    at,
    confirm,
    definition_lines,
    described,
    document,
    instance_lines,
    note,
    print_all,
    print_one,
    standing,
    table,
)
from go_scheduler.cli.selecting import (
    Chosen,
    Listed,
    anything_meant,
    definition_meant,
    definitions_of,
    failed_meant,
    instance_meant,
    instances_of,
)
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError, TaskDefinitionNotFoundError
from go_scheduler.models import NodeInfo, State, TaskDefinition, TaskInstance
from go_scheduler.policies import Overlap

app = Application()

Thing = Annotated[
    str,
    argument(
        "ID",
        "A definition or an instance: its id or key, the beginning of its"
        " id, or a name that only one definition has.",
    ),
]


@app.command("list")
def list_(listed: Listed, where: Where, json: Json = False) -> None:
    """List definitions, or their instances with --instances."""
    with where.client() as client:
        if listed.instances:
            instances, more = instances_of(client, listed)
            print_all(instances, _OF_INSTANCES, json=json)
        else:
            definitions, more = definitions_of(client, listed)
            print_all(definitions, _OF_DEFINITIONS, json=json)
    if more:
        note(f"there are more than {listed.limit}: see --limit")


_OF_DEFINITIONS: Mapping[str, Callable[[TaskDefinition], str]] = {
    "DEFINITION": lambda each: str(each.id),
    "NAME": lambda each: each.label or "-",
    "QUEUE": lambda each: each.queue,
    "STATE": lambda each: each.state.value,
    "NEXT": lambda each: at(each.next_fire_time),
    "RUNS": lambda each: described(each.trigger),
}
_OF_INSTANCES: Mapping[str, Callable[[TaskInstance], str]] = {
    "INSTANCE": lambda each: str(each.id),
    "NAME": lambda each: each.definition.label or "-",
    "QUEUE": lambda each: each.definition.queue,
    "STATE": standing,
    "AT": lambda each: at(each.execute_at),
    "RUNS": lambda each: str(each.runs),
}
_OF_NODES: Mapping[str, Callable[[NodeInfo], str]] = {
    "NODE": lambda each: str(each.id),
    "HOST": lambda each: each.host or "-",
    "PID": lambda each: str(each.pid or "-"),
    "VERSION": lambda each: each.version or "-",
    "QUEUES": lambda each: _queues(each.queues),
    "STATE": lambda each: _life(each),
    "SEEN": lambda each: at(each.seen_at),
}


def _queues(queues: Sequence[str] | None) -> str:
    return "any" if queues is None else ", ".join(queues) or "none"


def _life(node: NodeInfo) -> str:
    if not node.alive:
        return "gone"
    return "stopping" if node.stopping else "alive"


@app.command()
def show(id: Thing, where: Where, json: Json = False) -> None:
    """Show all of a definition, or of an instance."""
    found: TaskDefinition | TaskInstance
    with where.client() as client:
        meant = anything_meant(client, id)
        try:
            found = client.get_definition(meant)
            lines = definition_lines(found)
        except TaskDefinitionNotFoundError:
            found = client.get_instance(meant)
            lines = instance_lines(found, client.list_runs(meant))
    print_one(found, "\n".join(lines), json=json)


@app.command()
def why(
    id: Thing,
    where: Where,
    instant: Annotated[str | None, text("--at", metavar="TIME")] = None,
    json: Json = False,
) -> None:
    """Say why something ran, did not run, or does not run now.

    Args:
        instant: The instant to ask about.
    """
    asked = instant_of(instant, "--at")
    with where.client() as client:
        answer = client.why(anything_meant(client, id), asked)
    print_one(answer, str(answer), json=json)


@app.command()
def stats(where: Where, json: Json = False) -> None:
    """Count instances by state, up to 10,000 of each."""
    with where.client() as client:
        counts = client.counts_up_to()
    if json:
        by_state = {each.value: counts[each].count for each in State}
        more = [each.value for each in State if counts[each].more]
        document({"instances": by_state, "more": more})
    else:
        rows = [(each.value, str(counts[each])) for each in State]
        table(("STATE", "INSTANCES"), rows)


@app.command()
def nodes(where: Where, json: Json = False) -> None:
    """List the nodes that the store has seen within the last hour."""
    with where.client() as client:
        print_all(client.nodes(), _OF_NODES, json=json)


@app.command()
def pause(
    chosen: Chosen,
    where: Where,
    definitions: Definitions = None,
    note: str | None = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Pause definitions: none of their instances starts until they are resumed.

    Args:
        note: Why, for a person to read.
    """
    with where.client() as client:
        ids = chosen.confirmed(client, definitions, "pause", yes=yes)
        _change(ids, lambda id: client.pause(id, note), "paused", json=json)


@app.command()
def resume(
    chosen: Chosen,
    where: Where,
    definitions: Definitions = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """End the pause of definitions."""
    with where.client() as client:
        ids = chosen.confirmed(client, definitions, "resume", yes=yes)
        _change(ids, client.resume, "resumed", json=json)


def _change(
    ids: list[UUID],
    change: Callable[[UUID], TaskDefinition],
    done: str,
    *,
    json: bool,
) -> None:
    for each in ids:
        print_one(change(each), f"{each}  {done}", json=json)


@app.command()
def delete(
    chosen: Chosen,
    where: Where,
    definitions: Definitions = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete definitions, and their instances that have not started."""
    with where.client() as client:
        ids = chosen.confirmed(client, definitions, "delete", yes=yes)
        gone = 0
        for each in ids:
            deleted = client.delete_definition(each)
            if deleted is None:
                _say(each, "is not there", json=json)
                continue
            gone += 1
            count = deleted.running
            on = f"; {count} of its instances had started, and run on" if count else ""
            told = {"id": each, "answer": "deleted", "running": count}
            print_one(told, f"{each}  deleted{on}", json=json)
    _refuse_nothing(gone)


@app.command()
def run(
    definition: Definition,
    where: Where,
    payload: Annotated[str | None, text(metavar="JSON")] = None,
    instant: Annotated[str | None, text("--at", metavar="TIME")] = None,
    delay: str | None = None,
    key: str | None = None,
    json: Json = False,
) -> None:
    """Run a definition once more, now or later.

    Args:
        payload: The payload that the handler gets.
        instant: When; default: now.
        delay: How long from now, such as 5m.
        key: If an instance has this key already, no new one is made.
    """
    with where.client() as client:
        made = client.run_now(
            definition_meant(client, definition),
            payload=object_of(payload, "--payload"),
            at=instant_of(instant, "--at"),
            delay=duration_of(delay, "--delay"),
            key=key,
        )
    told = f"{made.id}  {made.state.value}, at {at(made.execute_at)}"
    print_one(made, told, json=json)


@app.command()
def backfill(
    definition: Definition,
    where: Where,
    since: Annotated[str, text(metavar="TIME")],
    until: Time = None,
    overlap: Overlap | None = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 1000,
    json: Json = False,
) -> None:
    """Run the fire times of a past period that have no instance.

    Args:
        since: The first instant.
        until: The first instant after; default: now.
        overlap: How they exclude each other; default: as it says itself.
        limit: The most to make.
    """
    start = instant_of(since, "--since")
    end = instant_of(until, "--until") or SystemClock().now()
    assert start is not None, "the option is required"
    with where.client() as client:
        id = definition_meant(client, definition)
        found = client.backfill(id, start, end, overlap=overlap, limit=limit)
    print_one(found, f"{id}  {found.made} made, {found.there} were there", json=json)
    if found.next is not None:
        note(f"there are more: go on with --since {found.next.isoformat()}")


@app.command()
def cancel(
    where: Where, instances: Instances = None, yes: Yes = False, json: Json = False
) -> None:
    """Cancel instances that have not started; ask running ones to stop."""
    if not instances:
        raise ConfigurationError("say which: by their ids")
    with where.client() as client:
        ids = dict.fromkeys(instance_meant(client, each) for each in instances)
        confirm(f"cancel {len(ids)} instances", len(ids), yes=yes)
        answers = {each: client.cancel(each) for each in ids}
    for each, answer in answers.items():
        _say(each, "ended before" if answer is None else answer.value, json=json)
    _refuse_nothing([each for each in answers.values() if each is not None])


@app.command()
def retry(
    where: Where,
    instances: Instances = None,
    name: Name = None,
    definition: str | None = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Run failed instances again.

    Args:
        definition: All failed instances of this definition.
    """
    with where.client() as client:
        filtered = name is not None or definition is not None
        if bool(instances) == filtered:
            raise ConfigurationError(
                "say which: by their ids, or by --name or --definition"
            )
        if instances:
            meant = [instance_meant(client, each) for each in instances]
        else:
            meant = failed_meant(client, name=name, definition=definition)
        ids = list(dict.fromkeys(meant))
        confirm(f"run {len(ids)} instances again", len(ids), yes=yes)
        for each in ids:
            again = client.retry(each)
            print_one(again, f"{each}  {again.state.value}", json=json)


def _say(id: UUID, done: str, *, json: bool) -> None:
    print_one({"id": id, "answer": done}, f"{id}  {done}", json=json)


def _refuse_nothing(done: object) -> None:
    """End with exit code 1 if there was nothing to do."""
    if not done:
        raise typer.Exit(ExitCode.NOT_SO)
