"""The commands that change nothing: `list`, `show`, `why`, `stats`, `nodes`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from go_scheduler.cli.connection import Where
from go_scheduler.cli.filters import Listed, definitions_of, instances_of
from go_scheduler.cli.options import Json, argument, grouped, instant_of, text
from go_scheduler.cli.output import (
    at,
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
from go_scheduler.cli.resolve import anything_meant
from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import NodeInfo, State, TaskDefinition, TaskInstance

app = typer.Typer()

Thing = Annotated[
    str,
    argument(
        "A definition or an instance: its id or key, the beginning of its"
        " id, or a name that only one definition has.",
        "ID",
    ),
]


@app.command("list")
@grouped
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
@grouped
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
@grouped
def why(
    id: Thing,
    where: Where,
    instant: Annotated[
        str | None, text("The instant to ask about.", "--at", metavar="TIME")
    ] = None,
    json: Json = False,
) -> None:
    """Say why something ran, did not run, or does not run now."""
    asked = instant_of(instant, "--at")
    with where.client() as client:
        answer = client.why(anything_meant(client, id), asked)
    print_one(answer, str(answer), json=json)


@app.command()
@grouped
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
@grouped
def nodes(where: Where, json: Json = False) -> None:
    """List the nodes that the store has seen within the last hour."""
    with where.client() as client:
        print_all(client.nodes(), _OF_NODES, json=json)
