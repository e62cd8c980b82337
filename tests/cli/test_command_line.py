"""What holds for every command: where it looks, how it ends, what it never shows."""

from __future__ import annotations

import builtins
import io
import os
import re
import runpy
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import errors
from go_scheduler.cli import main
from go_scheduler.cli.options import ExitCode, exit_code_of
from go_scheduler.stores import open_store
from go_scheduler.version import __version__
from tests.cli.shell import Shell, clean_environment
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


def test_a_store_is_named_by_an_option_or_by_the_environment(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "say where: --store URL" in shell.refusal("list", where=False)
    monkeypatch.setenv("GO_SCHEDULER_STORE", shell.url)
    assert "DEFINITION" in shell("list", where=False)
    monkeypatch.setenv("GO_SCHEDULER_STORE", "sqlite:///other.db")
    assert "DEFINITION" in shell("list")


def test_of_the_configuration_a_command_reads_the_store(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path("go_scheduler.yaml")
    for text in (f"store: {shell.url}", f"store: {{url: '{shell.url}'}}\nserver: {{}}"):
        file.write_text(text)
        assert "DEFINITION" in shell("list", where=False)
    for text, told in (
        ("server: {port: 1}", "say where: --store URL"),
        ("stores: {}", "line 1: stores: there is no such setting: did you mean store?"),
        ("store: {ulr: x}", "line 1: store.ulr: there is no such setting: did you me"),
    ):
        file.write_text(text)
        assert told in shell.refusal("list", where=False)
    file.write_text("store: {url: 'sqlite:///none.db'}")
    monkeypatch.setenv("GO_SCHEDULER_STORE__URL", shell.url)
    assert "DEFINITION" in shell("list", where=False)


@pytest.mark.parametrize(
    ("url", "text", "code"),
    [
        ("memory://", "ends with the process that has it", 2),
        ("jobs.db", "begins with a scheme", 2),
        ("oracle://host/jobs", "no store has the scheme 'oracle'", 2),
        ("sqlite:///none.db", "none.db: name another one by --store, or have", 3),
        ("sqlite:////no/such/folder/jobs.db", "does not exist", 2),
        ("postgresql://user:secret@127.0.0.1:1/jobs", "127.0.0.1", 3),
    ],
)
def test_a_store_that_cannot_be_used_is_told_in_a_sentence(
    shell: Shell, url: str, text: str, code: int
) -> None:
    told = shell.refusal("list", "--store", url, where=False, code=code)
    assert text in told
    assert not Path("none.db").exists()
    assert "secret" not in told


@pytest.mark.slow
def test_only_what_puts_something_in_makes_the_tables(
    shell: Shell, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    shell.refusal("pause", "--all", "--store", url, where=False, code=3)
    shell("add", "x", "--on-demand", "--store", url, where=False)
    assert "x" in shell("list", "--store", url, where=False)


@pytest.mark.slow
def test_a_schema_is_checked_shown_and_brought_up_to_date(
    shell: Shell, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert "there is no file" in shell.refusal(
        "migrate", "--check", "--store", url, where=False, code=1
    )
    (tmp_path / "new.db").touch()
    assert "or run `go_scheduler migrate`" in shell.refusal(
        "list", "--store", url, where=False, code=3
    )
    assert "there is no schema yet" in shell.refusal(
        "migrate", "--check", "--store", url, where=False, code=1
    )
    for more in ([], ["--check"], []):
        assert shell("migrate", *more, "--store", url, where=False) == (
            "the schema is up to date\n"
        )
    sql = shell("migrate", "--show")
    assert "CREATE TABLE" in sql
    [head] = re.findall(r"schema revision (\S+)", sql)
    assert shell("migrate", "--show", "--since", head) == "-- it is up to date\n"
    for scheme in ("postgres", "postgresql+psycopg", "cockroachdb"):
        assert "CREATE TABLE" in shell(
            "migrate", "--show", "--store", f"{scheme}://h/d", where=False
        )
    assert "say --check or --show" in shell.refusal("migrate", "--check", "--show")
    assert "--since is of use" in shell.refusal("migrate", "--since", "x")
    assert "there is no revision 'x'" in shell.refusal(
        "migrate", "--show", "--since", "x"
    )
    refused = shell.refusal("migrate", "--store", "sqlite:////no/x.db", where=False)
    assert "does not exist" in refused


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
    assert "DEFINITION" in shell("list", "--store", "other://x", where=False)


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


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("x"), ExitCode.USAGE),
        (errors.InvalidTriggerError("x"), ExitCode.USAGE),
        (errors.StoreError("x"), ExitCode.AWAY),
        (errors.StoreUnavailableError("x"), ExitCode.AWAY),
        (errors.ClaimLostError("x"), ExitCode.NOT_SO),
    ],
)
def test_each_error_has_its_exit_code(
    error: errors.GoSchedulerError, code: ExitCode
) -> None:
    assert exit_code_of(error) is code


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
        " brings typer\n"
    )
    monkeypatch.undo()

    def need(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named uvicorn", name="uvicorn")

    monkeypatch.setattr("go_scheduler.cli.application._command", need)
    assert main(["list"]) == 2
    assert "go_scheduler, which brings uvicorn" in capsys.readouterr().err
    monkeypatch.setattr(builtins, "__import__", refuse)
    missing["name"] = "go_scheduler.other"
    with pytest.raises(ModuleNotFoundError):
        main(["list"])


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["lst"], "Did you mean 'list'?"),
        (["types", "lst"], "Did you mean 'list'?"),
        (["add", "--crn", "x"], "(Possible options: --cron)"),
        (["migrate", "--chek"], "(Possible options: --check)"),
        (["list", "--zzz"], "No such option: --zzz\n"),
    ],
)
def test_a_slip_of_the_fingers_is_told_with_what_may_be_meant(
    shell: Shell, words: list[str], near: str
) -> None:
    assert near in shell.refusal(*words, where=False)


@pytest.mark.slow
def test_what_the_shell_has_taken_apart_is_to_be_quoted(shell: Shell) -> None:
    for words in ("add report --cron 0 9 * * *", "preview every day at 9am"):
        told = shell.refusal(*words.split(), where=False)
        assert told.rstrip().endswith("needs quotes, as in --cron '0 9 * * *'")
    assert "quotes" not in shell.refusal("version-less", "x", where=False)
    told = shell.refusal("preview", "*/5 * * * *", where=False)
    assert "it is a cron expression: use CronTrigger, --cron on the command l" in told


def test_a_name_that_nobody_has_is_told_with_the_one_that_may_be_meant(
    shell: Shell,
) -> None:
    shell("add", "report", "--on-demand")
    for words in (["show"], ["pause"], ["list", "-i", "--definition"]):
        near = shell.refusal(*words, "reprot", code=1)
        assert near.endswith("or an id that begins so: did you mean 'report'?\n")
        assert shell.refusal(*words, "mail", code=1).endswith("an id that begins so\n")


def test_ctrl_c_ends_quietly(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("go_scheduler.cli.commands.reading.instances_of", interrupt)
    assert shell("list", "-i", code=130) == ""
    assert shell.errors == ""
    monkeypatch.setattr("go_scheduler.cli.application.run", interrupt)
    assert shell("list", code=130) == ""


def test_the_end_of_the_input_is_an_answer(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object, **__: object) -> None:
        raise EOFError

    for _ in range(2):
        shell("add", "x", "--on-demand")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", end)
    shell("delete", "--all", code=130)


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


class Standard:
    """The standard streams of this process, which a test replaces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch.setattr
        self.errors = io.StringIO()
        self.patch("sys.stderr", self.errors)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["list"], ["--help"]])
def test_a_reader_that_has_closed_the_pipe_ends_it_quietly(
    shell: Shell, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    standard = Standard(monkeypatch)
    monkeypatch.setenv("GO_SCHEDULER_STORE", shell.url)
    code = None
    with suppress(BrokenPipeError), os.fdopen(writer, "w") as output:
        standard.patch("sys.stdout", output)
        code = main(words)
    assert code == ExitCode.BROKEN_PIPE
    assert standard.errors.getvalue() == ""


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
    standard = Standard(monkeypatch)
    with open("/dev/full", "w") as full:
        standard.patch(f"sys.{stream}", full)
        assert main(words) == code
    assert told in standard.errors.getvalue()
    assert "Traceback" not in standard.errors.getvalue()


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


def test_the_process_runs_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["go_scheduler", "--version"])
    program = str(ROOT / "go_scheduler/__main__.py")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(program, run_name="__main__")
    assert ended.value.code == 0
    assert __version__ in capsys.readouterr().out
    runpy.run_path(program, run_name="imported")


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
    shell: Shell, tmp_path: Path, words: list[str], loaded: set[str]
) -> None:
    big = {"alembic", "fastapi", "httpx", "jwt", "kombu", "rich", "sqlalchemy"}
    big |= {"starlette", "yaml"}
    environment = {}
    if words == ["list"]:
        Path("go_scheduler.yaml").write_text(f"store: {shell.url}")
    else:
        environment["GO_SCHEDULER_STORE"] = shell.url
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


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_GO_SCHEDULER_COMPLETE", f"source_{kind}")
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert "go_scheduler" in capsys.readouterr().out


def test_commands_and_options_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_GO_SCHEDULER_COMPLETE", "complete_bash")
    for words, found in (("re", {"resume", "retry"}), ("add --cr", {"--cron"})):
        typed = f"go_scheduler {words}"
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
        with pytest.raises(SystemExit):
            main([])
        assert {*capsys.readouterr().out.split()} == found
