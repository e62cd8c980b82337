"""Arguments and options that several commands have."""

from typing import Annotated, Any

import typer

Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, for scripts: an object on each line."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask, of however many it is.")
]
Definition = Annotated[
    str,
    typer.Argument(
        metavar="DEFINITION",
        help="Its id, the beginning of it, or the name that it alone has.",
        show_default=False,
    ),
]
Definitions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DEFINITION]...",
        help="Ids, beginnings of them, or names that one alone has.",
        show_default=False,
    ),
]
Instances = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[INSTANCE]...",
        help="Ids, or beginnings of them.",
        show_default=False,
    ),
]
Name = Annotated[str | None, typer.Option(help="Of this name.", show_default=False)]
Queue = Annotated[str | None, typer.Option(help="Of this queue.", show_default=False)]
Metadata = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='Whose metadata contains this, such as \'{"team": "billing"}\'.',
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")]


def text(help: str, *names: str, metavar: str | None = None) -> Any:
    """An option that is a text."""
    return typer.Option(*names, help=help, metavar=metavar, show_default=False)
