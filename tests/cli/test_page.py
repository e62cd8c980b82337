"""The pages on the command line and the server: what they show is so."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from go_scheduler.cli import main
from go_scheduler.cli.options import ExitCode
from go_scheduler.http.configuration.loading import load_configuration
from tests.cli.reference import reference
from tests.cli.shell import clean_environment
from tests.http.configuration.places import places
from tests.patience import FAILED_AFTER
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
COMMAND_LINE = (ROOT / "docs/command-line.md").read_text()
SERVER = (ROOT / "docs/server.md").read_text()
PAGES = (
    "audit",
    "command-line",
    "doctor",
    "on-call",
    "server",
    "simulate",
    "troubleshooting",
)
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST_PAGES = [(ROOT / each).read_text() for each in ("README.md", "docs/index.md")]
QUICK = re.compile(
    r"^```sh\n(export .*?)^```\n\n```text\n(.*?)\n```$",
    re.MULTILINE | re.DOTALL,
)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TERMINALS = re.compile(r"^```sh title=.+?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = "GO_SCHEDULER_SERVER__PORT"
NOT_RUN = ("pip", "go_scheduler serve")


def steps(page: str) -> Iterator[tuple[str, str]]:
    """Each command that a page shows, and what it prints."""
    for session in SESSION.findall(page):
        for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, _, printed = step.partition("\n")
            yield command, printed


def run(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """What a command prints, as a terminal shows it."""
    words = shlex.split(command)
    if words[0] == "export":
        name, _, value = words[1].partition("=")
        monkeypatch.setenv(name, value)
        return ""
    if words[0] == "echo":
        *_, mode, file = words
        with Path(file).open("a" if mode == ">>" else "w") as written:
            written.write(f"{words[1]}\n")
        return ""
    with monkeypatch.context() as patch:
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            patch.setenv(name, value)
        assert words.pop(0) == "go_scheduler", command
        # A terminal shows both as they come.
        patch.setattr(sys, "stderr", sys.stdout)
        main(words)
    return capsys.readouterr().out


def with_a_script(folder: Path) -> dict[str, str]:
    """The environment of a shell that finds the command, and a port for a server."""
    program = folder / "go_scheduler"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m go_scheduler "$@"\n')
    program.chmod(0o755)
    return clean_environment() | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        PORT: str(free_port()),
    }


@pytest.mark.slow
@pytest.mark.documentation
@pytest.mark.parametrize("page", PAGES)
def test_each_command_prints_what_is_shown(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, shown in steps((ROOT / f"docs/{page}.md").read_text()):
        if command.startswith(NOT_RUN):
            continue
        expected = ".*".join(map(re.escape, shown.split("…")))
        printed = run(command, monkeypatch, capsys)
        assert re.fullmatch(expected, printed, re.DOTALL), f"{command}\n{printed}"


@pytest.mark.slow
@pytest.mark.documentation
@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
@pytest.mark.parametrize("page", FIRST_PAGES, ids=["README", "index"])
def test_the_first_commands_lead_to_the_first_work(page: str, tmp_path: Path) -> None:
    [(commands, shown)] = QUICK.findall(page)
    assert len(commands.splitlines()) == 4
    environment = with_a_script(tmp_path)
    port = environment[PORT]
    shell = subprocess.Popen(
        ["sh", "-c", f"{commands.replace('8710', port)}\nkill $!; wait $!"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    )
    try:
        printed, errors = shell.communicate(timeout=FAILED_AFTER)
    except subprocess.TimeoutExpired:  # pragma: no cover
        os.killpg(shell.pid, signal.SIGKILL)
        raise
    assert shell.returncode == 0, errors
    expected = ".*".join(map(re.escape, shown.split("…")))
    assert re.search(expected, printed), printed + errors


@pytest.mark.slow
@pytest.mark.documentation
def test_a_worker_of_a_server_is_given_work_as_shown(tmp_path: Path) -> None:
    [program] = PROGRAM.findall(COMMAND_LINE)
    (tmp_path / "jobs.py").write_text(program)
    environment = with_a_script(tmp_path)

    def started(commands: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-c", commands.replace("8710", environment[PORT])],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
            start_new_session=True,
        )

    def until(process: subprocess.Popen[str], text: str) -> None:
        assert process.stdout is not None
        assert any(text in line for line in process.stdout), f"ended without {text!r}"

    serve, work, submit = TERMINALS.findall(COMMAND_LINE)
    with started(serve) as server, started(work) as worker:
        try:
            until(server, "listens on")
            with started(submit) as submitting:
                assert submitting.wait(FAILED_AFTER) == 0
            until(worker, "sent 7")
        finally:
            for each in (worker, server):
                os.killpg(each.pid, signal.SIGTERM)


@pytest.mark.parametrize(
    ("name", "section"), [pytest.param(*each, id=each[0]) for each in reference()]
)
def test_each_command_is_explained_with_its_options(name: str, section: str) -> None:
    assert section.strip() in COMMAND_LINE, f"docs/command-line.md lacks\n{section}"


def test_each_exit_code_is_explained() -> None:
    for code in ExitCode:
        assert f"\n| {code.value} | " in COMMAND_LINE


def test_each_setting_is_explained_with_its_default() -> None:
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| (.+?) \| .+ \|$", SERVER, re.MULTILINE)
    assert rows == [*places()]


def test_the_container_is_made_of_what_there_is() -> None:
    folder = ROOT / "examples/docker"
    settings = load_configuration(folder / "go_scheduler.yaml")
    assert not settings.access.is_open
    settings.access.made()
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    server = compose["services"]["server"]
    assert (folder / server["build"]["context"]).resolve() == ROOT
    assert (ROOT / server["build"]["dockerfile"]).is_file()
    [mounted] = server["volumes"]
    assert (folder / mounted.split(":")[0]).is_file()
    store = compose["services"]["store"]["environment"]
    url = "postgresql://{POSTGRES_USER}:{POSTGRES_PASSWORD}@store:5432/{POSTGRES_DB}"
    assert server["environment"]["GO_SCHEDULER_STORE"] == url.format(**store)
    drain = settings.server.drain.total_seconds()
    assert float(server["stop_grace_period"].rstrip("s")) > drain
    dockerfile = (folder / "Dockerfile").read_text()
    assert "\nUSER scheduler\n" in dockerfile
    assert f"\nEXPOSE {settings.server.port}\n" in dockerfile
