"""The command `key`."""

from typing import Annotated, Any

import typer

from go_scheduler.cli.options import Json, text
from go_scheduler.cli.output import document, line, note

app = typer.Typer()


@app.command()
def key(
    subject: Annotated[
        str, typer.Argument(help="Who is to have it, for the log.", show_default=False)
    ],
    scope: Annotated[
        list[str], text("What it is to allow, such as workers.", "--scope", "-s")
    ],
    queue: Annotated[
        list[str] | None, text("A queue that it is restricted to.", "--queue", "-q")
    ] = None,
    owner: Annotated[
        list[str] | None, text("An owner that it is restricted to.", "--owner")
    ] = None,
    json: Json = False,
) -> None:
    """Make an API key, and what the configuration is to have of it.

    The key is shown this once, and kept nowhere. `--scope`, `--queue` and `--owner` may
    be given more than once.
    """
    # Imported here: no other command needs them.
    import yaml

    from go_scheduler.http.access.keys import ApiKey, new_key

    new = new_key()
    entry: dict[str, Any] = {"subject": subject, "hash": new.kept, "scopes": scope}
    entry |= {"queues": queue} if queue else {}
    entry |= {"owners": owner} if owner else {}
    ApiKey(**entry)  # Refuses what is no scope.
    if json:
        document({"key": new.key, **entry})
        return
    note(f"the key, which is shown this once: {new.key}")
    note("what go_scheduler.yaml is to have of it:")
    shown = {"access": {"keys": [entry]}}
    line(yaml.safe_dump(shown, sort_keys=False, default_flow_style=None).rstrip())
