"""The commands that change what is there, such as `pause`, `run` and `delete`."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

import typer

from go_scheduler.cli.connection import Where
from go_scheduler.cli.documents import definition_document, instance_document
from go_scheduler.cli.filters import Chosen, failed_meant
from go_scheduler.cli.options import (
    Definition,
    Definitions,
    ExitCode,
    Instances,
    Json,
    Name,
    Yes,
    duration_of,
    grouped,
    instant_of,
    object_of,
    text,
)
from go_scheduler.cli.output import at, document, line
from go_scheduler.cli.prompts import confirm
from go_scheduler.cli.resolve import definition_meant, instance_meant
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import TaskDefinition

app = typer.Typer()


@app.command()
@grouped
def pause(
    chosen: Chosen,
    where: Where,
    definitions: Definitions = None,
    note: Annotated[str | None, text("Why, for a person to read.")] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Pause definitions: nothing of them starts until they are resumed."""
    with where.client() as client:
        ids = chosen.confirmed(client, definitions, "pause", yes=yes)
        _change(ids, lambda id: client.pause(id, note), "paused", json=json)


@app.command()
@grouped
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
        changed = change(each)
        if json:
            document(definition_document(changed))
        else:
            line(f"{each}  {done}")


@app.command()
@grouped
def delete(
    chosen: Chosen,
    where: Where,
    definitions: Definitions = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete definitions, and what has not started of them."""
    with where.client() as client:
        ids = chosen.confirmed(client, definitions, "delete", yes=yes)
        gone = 0
        for each in ids:
            deleted = client.delete_definition(each)
            gone += deleted is not None
            if deleted is None:
                _say(each, "is not there", json=json)
            elif json:
                running = deleted.running
                document({"id": str(each), "answer": "deleted", "running": running})
            else:
                line(f"{each}  deleted{_running_on(deleted.running)}")
    _refuse_nothing(gone)


def _running_on(running: int) -> str:
    if not running:
        return ""
    return f"; {running} of its instances had started, and run on"


@app.command()
@grouped
def run(
    definition: Definition,
    where: Where,
    payload: Annotated[
        str | None, text("What the handler is given.", metavar="JSON")
    ] = None,
    instant: Annotated[
        str | None, text("When, instead of now.", "--at", metavar="TIME")
    ] = None,
    delay: Annotated[str | None, text("How much later than now, such as 5m.")] = None,
    key: Annotated[
        str | None, text("What has this key already is not made anew.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a definition once more, now or later."""
    with where.client() as client:
        made = client.run_now(
            definition_meant(client, definition),
            payload=object_of(payload, "--payload"),
            at=instant_of(instant, "--at"),
            delay=duration_of(delay, "--delay"),
            key=key,
        )
    if json:
        document(instance_document(made))
    else:
        line(f"{made.id}  {made.state.value}, at {at(made.execute_at)}")


@app.command()
@grouped
def cancel(
    where: Where, instances: Instances = None, yes: Yes = False, json: Json = False
) -> None:
    """Cancel instances that have not started; ask those to stop that run."""
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
@grouped
def retry(
    where: Where,
    instances: Instances = None,
    name: Name = None,
    definition: Annotated[
        str | None, text("All that failed of this definition.")
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Run instances again that have failed."""
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
            if json:
                document(instance_document(again))
            else:
                line(f"{each}  {again.state.value}")


def _say(id: UUID, done: str, *, json: bool) -> None:
    if json:
        document({"id": str(id), "answer": done})
    else:
        line(f"{id}  {done}")


def _refuse_nothing(done: object) -> None:
    """End with exit code 1 if there was nothing to do."""
    if not done:
        raise typer.Exit(ExitCode.NOT_SO)
