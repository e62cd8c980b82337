"""The commands that change nothing: `list`, `show`, `why`, `stats`, `nodes`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from go_scheduler.cli.connection import Where
from go_scheduler.cli.documents import (
    definition_document,
    instance_document,
    node_document,
    why_document,
)
from go_scheduler.cli.filters import Listed, definitions_of, instances_of
from go_scheduler.cli.options import Json, grouped, instant_of, text
from go_scheduler.cli.output import at, document, line, note, table
from go_scheduler.cli.resolve import anything_meant
from go_scheduler.cli.showing import (
    definition_lines,
    described,
    instance_lines,
    standing,
)
from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import NodeInfo, State, TaskDefinition, TaskInstance

app = typer.Typer()

Thing = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Of a definition or an instance: the id, the beginning of it, or the name"
        " that one definition alone has.",
        show_default=False,
    ),
]


@app.command("list")
@grouped
def list_(listed: Listed, where: Where, json: Json = False) -> None:
    """List definitions, or with --instances what was made of them."""
    with where.client() as client:
        if listed.instances:
            more = _list_instances(*instances_of(client, listed), json=json)
        else:
            more = _list_definitions(*definitions_of(client, listed), json=json)
    if more:
        note(f"there are more than {listed.limit}: see --limit")


def _list_definitions(
    found: Sequence[TaskDefinition], more: bool, *, json: bool
) -> bool:
    if json:
        for each in found:
            document(definition_document(each))
        return more
    rows = [
        (
            str(each.id),
            each.name or "-",
            each.queue,
            each.state.value,
            at(each.next_fire_time),
            described(each.trigger),
        )
        for each in found
    ]
    table(("DEFINITION", "NAME", "QUEUE", "STATE", "NEXT", "RUNS"), rows)
    return more


def _list_instances(found: Sequence[TaskInstance], more: bool, *, json: bool) -> bool:
    if json:
        for each in found:
            document(instance_document(each))
        return more
    rows = [
        (
            str(each.id),
            each.definition.name or "-",
            each.definition.queue,
            standing(each),
            at(each.execute_at),
            str(each.runs),
        )
        for each in found
    ]
    table(("INSTANCE", "NAME", "QUEUE", "STATE", "AT", "RUNS"), rows)
    return more


@app.command()
@grouped
def show(id: Thing, where: Where, json: Json = False) -> None:
    """Show all of a definition, or of an instance."""
    with where.client() as client:
        meant = anything_meant(client, id)
        try:
            definition = client.get_definition(meant)
        except TaskDefinitionNotFoundError:
            instance = client.get_instance(meant)
            runs = client.list_runs(meant)
            if json:
                document(instance_document(instance))
            else:
                line("\n".join(instance_lines(instance, runs)))
        else:
            if json:
                document(definition_document(definition))
            else:
                line("\n".join(definition_lines(definition)))


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
    if json:
        document(why_document(answer))
    else:
        line(str(answer))


@app.command()
@grouped
def stats(where: Where, json: Json = False) -> None:
    """Count the instances, by their state, up to 10,000 of each."""
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
        found = client.nodes()
    if json:
        for each in found:
            document(node_document(each))
        return
    rows = [
        (
            str(each.id),
            each.host or "-",
            str(each.pid or "-"),
            each.version or "-",
            "any" if each.queues is None else ", ".join(each.queues) or "none",
            _life(each),
            at(each.seen_at),
        )
        for each in found
    ]
    table(("NODE", "HOST", "PID", "VERSION", "QUEUES", "STATE", "SEEN"), rows)


def _life(node: NodeInfo) -> str:
    if not node.alive:
        return "gone"
    return "stopping" if node.stopping else "alive"
