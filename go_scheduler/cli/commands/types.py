"""The commands below `types`, on the types of jobs."""

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.commands.adding import RunPolicies
from go_scheduler.cli.options import (
    Json,
    Limit,
    Where,
    argument,
    documented,
    object_of,
    text,
)
from go_scheduler.cli.output import note, print_all, print_one, runs_where, type_lines
from go_scheduler.cli.selecting import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from go_scheduler.http.jobs import TypeAnswer
    from go_scheduler.http.remote import Remote

app = typer.Typer(
    no_args_is_help=True, help="Declare the types of jobs, and look at them."
)

Type = Annotated[str, argument(help="The name of the type.")]


@app.command("list")
@documented
def list_(where: Where, limit: Limit = 100, json: Json = False) -> None:
    """List the types that are declared, and those that the server runs itself."""
    with _types(where) as remote:
        found, more = pages(remote.list_types, {}, limit)
    columns: Mapping[str, Callable[[TypeAnswer], str]] = {
        "TYPE": lambda each: each.type,
        "QUEUE": lambda each: each.queue,
        "RUNS": runs_where,
        "DESCRIPTION": lambda each: each.description or "-",
    }
    print_all(found, columns, json=json)
    if more:
        note(f"there are more than {limit}: see --limit")


@app.command()
@documented
def show(type: Type, where: Where, json: Json = False) -> None:
    """Show all of a type."""
    with _types(where) as remote:
        found = remote.get_type(type)
    print_one(found, "\n".join(type_lines(found)), json=json)


@app.command()
@documented
def put(
    type: Type,
    policies: RunPolicies,
    where: Where,
    description: Annotated[str, text()] = "",
    schema: Annotated[str | None, text(metavar="JSON")] = None,
    owner: str | None = None,
    json: Json = False,
) -> None:
    """Declare a type of jobs for workers, or change it.

    An option that is not given gets its default, also for a type that exists.

    Args:
        description: What it does, for a person to read.
        schema: A JSON schema for payloads.
        owner: The owner of its declared set.
    """
    said = {name: _sent(each) for name, each in policies.fields().items()}
    said |= {"description": description, "owner": owner}
    said["schema"] = object_of(schema, "--schema")
    with _types(where, migrates=True) as remote:
        found = remote.put_type(type, said)
    told = f"{found.definition_id}  {found.type}, in the queue {found.queue}"
    print_one(found, told, json=json)


@app.command()
@documented
def delete(type: Type, where: Where, json: Json = False) -> None:
    """Delete a type that was declared, and the jobs of it that have not started."""
    with _types(where) as remote:
        remote.delete_type(type)
    print_one({"type": type, "answer": "deleted"}, f"{type}  deleted", json=json)


@contextmanager
def _types(where: Where, *, migrates: bool = False) -> "Iterator[Remote]":
    """A client of the server, or of a server in front of the store."""
    # Imported here, as it takes long.
    from go_scheduler.cli.in_process import answering

    with where.client(migrates=migrates) as client, answering(client) as remote:
        yield remote


def _sent(value: object) -> Any:
    """A value of a policy in a request."""
    from go_scheduler.http.bodies import RetryBody
    from go_scheduler.policies import RetryPolicy

    if isinstance(value, RetryPolicy):
        return RetryBody.of(value).model_dump(mode="json")
    return value.total_seconds() if isinstance(value, timedelta) else value
