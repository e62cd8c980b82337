"""What holds for every command: where it looks, how it ends, what it never shows."""

from __future__ import annotations

import builtins
import io
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.cli import main
from go_scheduler.cli.options import ExitCode
from go_scheduler.stores import open_store
from go_scheduler.version import __version__
from tests.case_tables import json_table
from tests.cli.shell import Shell, clean_environment
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises this, whatever it is called with."""

    def call(*_: object, **__: object) -> None:
        raise error

    return call


def test_a_store_is_named_by_an_option_the_environment_or_the_configuration(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path("go_scheduler.yaml")
    assert "say where: --store URL" in shell.refusal("list", where=False)
    Path("url").write_text(shell.url)
    for text in (shell.url, f"{{url: '{shell.url}'}}", "{url_file: url}"):
        file.write_text(f"store: {text}\nserver: {{prot: 1}}")
        assert "DEFINITION" in shell("list", where=False)
    for text, told in (
        ("server: {port: 1}", "say where: --store URL"),
        ("stores: {}", "yaml: stores: there is no such setting: did you mean store?"),
        ("store: {url_file: none}", "yaml: store: url_file: none cannot be read: No s"),
        ("store: {ulr: x}", "yaml: store.ulr: there is no such setting: did you me"),
    ):
        file.write_text(text)
        assert told in shell.refusal("list", where=False)
    file.write_text("store: {url: 'sqlite:///none.db'}")
    monkeypatch.setenv("GO_SCHEDULER_STORE__URL", shell.url)
    assert "DEFINITION" in shell("list", where=False)
    file.unlink()
    monkeypatch.setenv("GO_SCHEDULER_STORE", shell.url)
    assert "DEFINITION" in shell("list", where=False)
    monkeypatch.setenv("GO_SCHEDULER_STORE", "sqlite:///other.db")
    assert "DEFINITION" in shell("list")


@pytest.mark.parametrize(
    ("code", "words", "told"),
    json_table("cli/sentences"),
)
def test_what_is_wrong_is_told_in_a_sentence(
    shell: Shell, code: int, words: str, told: str
) -> None:
    refusal = shell.refusal(*words.split(), where=False, code=code)
    assert told in refusal
    assert "secret" not in refusal
    assert ("quotes" in refusal) is ("quotes" in told)
    if refusal.startswith("go_scheduler: "):
        assert len(refusal.splitlines()) == 1
    assert not Path("none.db").exists()


@pytest.mark.parametrize("words", ["doctor", "migrate", "plan set.jsonl --owner shop"])
def test_a_command_that_needs_the_store_itself_takes_no_server(
    shell: Shell, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("set.jsonl").touch()
    command, server = words.split(), "http://127.0.0.1:1"
    refused = shell.refusal(*command, "--server", server, where=False)
    assert "No such option: --server" in refused
    monkeypatch.setenv("GO_SCHEDULER_SERVER", server)
    refused = shell.refusal(*command, where=False)
    assert "needs the store itself: say --store URL" in refused
    assert "GO_SCHEDULER_SERVER" not in refused
    shell(*command, code=1 if "doctor" in command else 0)


@pytest.mark.slow
def test_a_schema_is_checked_shown_and_brought_up_to_date(
    shell: Shell, tmp_path: Path
) -> None:
    new = shell.at(f"sqlite:///{tmp_path / 'new.db'}")
    assert "there is no file" in new.refusal("migrate", "--check", code=1)
    new.refusal("pause", "--all", code=3)
    (tmp_path / "new.db").touch()
    assert "or run `go_scheduler migrate`" in new.refusal("list", code=3)
    assert "there is no schema yet" in new.refusal("migrate", "--check", code=1)
    for more in ([], ["--check"], []):
        assert new("migrate", *more) == "the schema is up to date\n"
    (tmp_path / "new.db").unlink()
    new("add", "x", "--on-demand")
    assert "x" in new("list")
    sql = shell("migrate", "--show")
    assert "CREATE TABLE" in sql
    [head] = re.findall(r"schema revision (\S+)", sql)
    assert shell("migrate", "--show", "--since", head) == "-- it is up to date\n"
    for scheme in ("postgres", "postgresql+psycopg", "cockroachdb"):
        assert "CREATE TABLE" in shell.at(f"{scheme}://h/d")("migrate", "--show")
    for words, told in (
        (["--check", "--show"], "say --check or --show"),
        (["--since", "x"], "--since is of use"),
        (["--show", "--since", "x"], "there is no revision 'x'"),
    ):
        assert told in shell.refusal("migrate", *words)


def test_a_store_of_another_package_is_opened_as_it_is(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Announced:
        name = "other"

        def load(self) -> Callable[..., object]:
            return lambda url, clock: open_store(shell.url)

    monkeypatch.setattr(
        "go_scheduler.stores.opening.entry_points", lambda group: [Announced()]
    )
    assert "DEFINITION" in shell.at("other://x")("list")


def test_where_an_error_comes_from_is_shown_when_it_is_asked_for(shell: Shell) -> None:
    shell("show", "x", code=1)
    assert "Traceback" not in shell.errors
    shell("--debug", "show", "x", code=1)
    assert "Traceback" in shell.errors
    assert shell.errors.endswith("or an id that begins so\n")


def test_the_version_and_the_help_are_shown(shell: Shell) -> None:
    assert shell("--version", where=False) == f"go_scheduler {__version__}\n"
    assert "Schedule work" in shell("--help", where=False)
    assert "--cron" in shell("add", "--help", where=False)
    shell(where=False, code=2)
    assert "Commands" in shell.errors


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"name": "typer"}
    real = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        if name == "go_scheduler.cli.application":
            raise ModuleNotFoundError(f"No module named {name}", name=missing["name"])
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert main(["list"]) == 2
    assert capsys.readouterr().err == (
        "go_scheduler: the command line needs the extra 'cli' of go_scheduler, which"
        " brings typer: in a checkout, pip install '.[cli]'\n"
    )
    missing["name"] = "go_scheduler.other"
    with pytest.raises(ModuleNotFoundError):
        main(["list"])
    monkeypatch.undo()
    lacks = ModuleNotFoundError("No module named uvicorn", name="uvicorn")
    monkeypatch.setattr("go_scheduler.cli.application._command", raising(lacks))
    assert main(["list"]) == 2
    assert "go_scheduler, which brings uvicorn" in capsys.readouterr().err


def test_ctrl_c_and_the_end_of_the_input_end_a_command(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        shell("add", "x", "--on-demand")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdin.isatty", lambda: True)
        patch.setattr("typer.confirm", raising(EOFError()))
        shell("delete", "--all", code=130)
    interrupt = raising(KeyboardInterrupt())
    for place in ("commands.definitions.instances_of", "application.run"):
        monkeypatch.setattr(f"go_scheduler.cli.{place}", interrupt)
        assert shell("list", "-i", code=130) == shell.errors == ""


def test_a_table_is_as_wide_as_a_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("add", "\x1b[31mred\nname", "--cron", "0 9 * * *")
    plain = shell("list")
    assert "\x1b" not in plain
    assert "\\x1b[31mred name" in plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    drawn = shell("list")
    assert "\x1b[1m" in drawn
    lines = re.sub(r"\x1b\[[\d;]*m", "", drawn).splitlines()
    assert max(map(len, lines)) <= 60
    monkeypatch.setenv("COLUMNS", "50")
    wrapped = re.sub(r"\x1b\[[\d;]*m", "", shell("list"))
    assert [each.split() for each in wrapped.splitlines()] == [
        each.split() for each in plain.splitlines()
    ]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shell("list")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["list"], ["--help"]])
def test_a_reader_that_has_closed_the_pipe_ends_it_quietly(
    shell: Shell, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    errors = io.StringIO()
    monkeypatch.setattr("sys.stderr", errors)
    monkeypatch.setenv("GO_SCHEDULER_STORE", shell.url)
    code = None
    with suppress(BrokenPipeError), os.fdopen(writer, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        code = main(words)
    assert (code, errors.getvalue()) == (ExitCode.BROKEN_PIPE, "")


@pytest.mark.parametrize(
    ("stream", "words", "code", "told"),
    [
        ("stdout", ["--version"], ExitCode.NOT_SO, "written: No space left on device"),
        ("stderr", ["list"], ExitCode.USAGE, ""),
    ],
)
def test_a_stream_that_is_full_is_no_bug(
    stream: str, words: list[str], code: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = io.StringIO()
    monkeypatch.setattr("sys.stderr", errors)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(f"sys.{stream}", full)
        assert main(words) == code
    assert told in errors.getvalue()
    assert "Traceback" not in errors.getvalue()


def test_a_process_without_streams_runs_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        for name in ("stdin", "stdout", "stderr"):
            patch.setattr(f"sys.{name}", None)
        assert main(["--version"]) == ExitCode.DONE
        for each in (sys.stdin, sys.stdout, sys.stderr):
            each.close()


def test_what_a_terminal_cannot_show_is_written_by_its_number(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("add", "größe", "--on-demand")
    for words, shown in (
        (["list"], r" gr\xf6\xdfe "),
        (["list", "--json"], r'"name":"gr\u00f6\u00dfe"'),
    ):
        written = io.BytesIO()
        with monkeypatch.context() as patch:
            terminal = io.TextIOWrapper(written, encoding="ascii")
            patch.setattr("sys.stdout", terminal)
            assert main([*words, "--store", shell.url]) == 0
        assert shown in written.getvalue().decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["--help"], set()),
        (["add", "x", "--every", "1h"], {"sqlalchemy"}),
        (["list"], {"rich", "sqlalchemy", "yaml"}),
    ],
    ids=["help", "add", "list"],
)
def test_a_process_loads_no_more_than_its_command_needs(
    shell: Shell, words: list[str], loaded: set[str]
) -> None:
    big = {"alembic", "fastapi", "httpx", "jwt", "kombu", "rich", "sqlalchemy"}
    big |= {"starlette", "yaml"}
    environment = {"GO_SCHEDULER_STORE": shell.url}
    if words == ["list"]:
        environment = {}
        Path("go_scheduler.yaml").write_text(f"store: {shell.url}")
    program = f"""
import sys
from go_scheduler.cli import main
code = main({words})
print(*{big} & sys.modules.keys(), file=sys.stderr)
sys.exit(code)
"""
    clean = {k: v for k, v in clean_environment().items() if "COV" not in k}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=FAILED_AFTER,
        check=True,
    )
    assert {*ran.stderr.split()} == loaded
    if words == ["list"]:
        assert ran.stdout == "DEFINITION  NAME  QUEUE  STATE  NEXT  RUNS\n"


@pytest.mark.parametrize(
    ("mode", "typed", "found"),
    [
        ("source_bash", "", {"_GO_SCHEDULER_COMPLETE=complete_bash"}),
        ("source_zsh", "", {"_GO_SCHEDULER_COMPLETE=complete_zsh"}),
        ("source_fish", "", {"_GO_SCHEDULER_COMPLETE=complete_fish"}),
        ("complete_bash", "re", {"resume", "retry"}),
        ("complete_bash", "add --cr", {"--cron"}),
    ],
)
def test_shells_complete_commands_and_options(
    mode: str,
    typed: str,
    found: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_GO_SCHEDULER_COMPLETE", mode)
    monkeypatch.setenv("COMP_WORDS", f"go_scheduler {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    with pytest.raises(SystemExit) as ended:
        main([])
    printed = capsys.readouterr().out
    if mode.startswith("source"):
        assert ended.value.code == 0
        assert all(each in printed for each in found)
    else:
        assert {*printed.split()} == found
