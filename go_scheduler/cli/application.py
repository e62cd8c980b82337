"""The application: all commands; what an error that ends one looks like."""

import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from go_scheduler.cli.commands import adding, checking, definitions, serving
from go_scheduler.cli.options import ExitCode, exit_code_of
from go_scheduler.cli.output import OutputError, line, note
from go_scheduler.errors import GoSchedulerError
from go_scheduler.http.remote_errors import CallerError
from go_scheduler.pydantic_messages import worded
from go_scheduler.version import __version__


class Commands(TyperGroup):
    """The group of commands; an error is printed as one sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command.

        Raises:
            typer.Exit: With the exit code of an error.
        """
        try:
            return super().invoke(ctx)
        except GoSchedulerError as error:
            if ctx.params["debug"]:
                traceback.print_exception(error)
            note(f"go_scheduler: {error}{_remedy(error)}")
            raise typer.Exit(exit_code_of(error)) from None


def _remedy(error: GoSchedulerError) -> str:
    """A remedy that only the command line knows."""
    if not isinstance(error, CallerError):
        return ""
    if error.scope is not None:
        return (
            f'; log in by `go_scheduler login --scope "openid {error.scope}"`, or set'
            " GO_SCHEDULER_TOKEN to a token with this scope"
        )
    return (
        "; set GO_SCHEDULER_TOKEN, to an API key for example, or log in by"
        " `go_scheduler login`"
    )


application = typer.Typer(
    name="go_scheduler",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Boxes are drawn only on a terminal with colors.
    rich_markup_mode="rich"
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    else None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        line(f"go_scheduler {__version__}")
        raise typer.Exit


@application.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error comes from.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Schedule work, look at it, run it and serve it."""


for _each in (serving, adding, definitions, checking):
    application.add_typer(_each.app)
application.add_typer(adding.types, name="types")


@cache
def _command() -> Any:
    """All commands; made once."""
    return get_command(application)


_UNQUOTED = {"--cron", "--phrase", "--rrule", "preview"}


def _show(error: Any, words: Sequence[str]) -> None:
    """Print a wrong usage, with a hint at what may be meant."""
    if near := getattr(error, "possibilities", None):
        # Only the most similar option.
        error.possibilities = get_close_matches(error.option_name, near, n=1)
    told = getattr(error.__cause__, "errors", None)
    if told is not None:
        error.message = worded(told()[0])
    if "No such option" in error.message and words[0].startswith("-") and not near:
        error.message += "; the options of a command come after it"
    if "unexpected extra argument" in error.message:
        if _UNQUOTED & {*words}:
            error.message += "; what has spaces needs quotes, as in --cron '0 9 * * *'"
        elif words[0] == "list":
            name = error.message.rpartition("(")[2].removesuffix(")")
            error.message += f"; use --name {name}"
    error.show()


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        ended = _command()(
            args=words,
            prog_name="go_scheduler",
            standalone_mode=False,
        )
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except typer.TyperException as error:
        _show(error, words)
        return error.exit_code
    except OutputError as error:
        note(f"go_scheduler: {error}")
        return exit_code_of(error)
    except SystemExit as ended:
        # typer ends so when its help goes into a closed pipe.
        if ended.code != 1:
            raise
        return ExitCode.BROKEN_PIPE
    return int(ended or 0)
