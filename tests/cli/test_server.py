"""The commands `serve` and `config`."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.shell import ROOT, Shell, clean_environment, script
from tests.handlers.mail_servers import mail_server
from tests.handlers.receivers import receiving
from tests.http.serving import get
from tests.patience import FAILED_AFTER


class Server:
    """`go_scheduler serve` in a process of its own, which listens.

    Args:
        folder: Where it is started.
        words: What is said besides.
        environment: What it finds in its environment besides.
    """

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "go_scheduler", "serve", "--port", "0", *words],
            cwd=folder,
            env=clean_environment() | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if "listens on" in line:
                self.url = line.split()[3].rstrip(",")
                return
        raise AssertionError("".join(self.said))

    def end(self, number: int) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        code = self.process.wait(FAILED_AFTER)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.mark.slow
@pytest.mark.chaos
def test_a_server_that_is_killed_is_started_again_on_its_store(tmp_path: Path) -> None:
    """It needs no word but its own in an empty folder."""
    for words, number, code in (
        ((), signal.SIGKILL, -9),
        (("--host", "127.0.0.1", "--no-run"), signal.SIGTERM, 0),
    ):
        server = Server(tmp_path, *words)
        named = "no store is named: it is sqlite:///go_scheduler.db"
        assert named in "".join(server.said)
        assert get(f"{server.url}/healthz").status_code == 200
        assert server.end(number) == code


@pytest.mark.slow
@pytest.mark.documentation
def test_the_example_runs_its_own_type_beside_webhooks_and_mails(
    tmp_path: Path,
) -> None:
    shutil.copytree(ROOT / "examples/job_types", tmp_path, dirs_exist_ok=True)
    with mail_server() as mails, receiving() as receiver:
        here = {
            "GO_SCHEDULER_TYPES__WEBHOOK__NETWORKS": "127.0.0.0/8",
            "GO_SCHEDULER_TYPES__WEBHOOK__PORTS": f"[{receiver.port}]",
            "GO_SCHEDULER_TYPES__EMAIL__HOST": "127.0.0.1",
            "GO_SCHEDULER_TYPES__EMAIL__PORT": str(mails.port),
            "GO_SCHEDULER_TYPES__EMAIL__SECURITY": "none",
        }
        checked = script("config", cwd=tmp_path, **here)
        assert checked.stdout == "go_scheduler.yaml is right\n"
        server = Server(tmp_path, **here)
        mail = {"to": "ada@example.org", "subject": "Hello", "text": "Hello Ada"}
        for name, payload in (
            ("word count", {"text": "to be or not", "least": 3}),
            ("webhook", {"url": f"http://127.0.0.1:{receiver.port}/204"}),
            ("email", mail),
        ):
            job = {"type": name, "payload": payload}
            submitted = httpx.post(f"{server.url}/v1/jobs", json=job).json()
            instance = f"{server.url}/v1/instances/{submitted['instance_id']}"
            while (found := get(instance).json())["completed_at"] is None:
                assert found["error"] is None
            assert found["state"] == "completed"
        assert server.end(signal.SIGTERM) == 0
        assert [each.path for each in receiver.received] == ["/204"]
        assert [each.rcpt_tos for _, each in mails.received] == [[mail["to"]]]


def test_the_configuration_is_checked_and_shown(shell: Shell) -> None:
    assert shell("config", where=False) == "the configuration is right\n"
    Path("go_scheduler.yaml").write_text("store: postgresql://ann:secret@host/jobs\n")
    assert shell("config", where=False) == "go_scheduler.yaml is right\n"
    shown = shell("config", "--show", where=False)
    assert (
        '  url: "postgresql://ann:***@host/jobs"  # go_scheduler.yaml, line 1' in shown
    )
    assert "  port: 8710  # default" in shown
    objects = shell("config", "--show", "--json", where=False).splitlines()
    assert '{"setting":"server.port","value":8710,"origin":"default"}' in objects
    assert "--json is of use" in shell.refusal("config", "--json", where=False)
    Path("go_scheduler.yaml").write_text("server: {prot: 1}")
    assert "line 1: server.prot: there is no such setting: did you mean port?" in (
        shell.refusal("config", where=False)
    )
    key = "{subject: ann, hash: gs_x, scopes: [admin]}"
    Path("go_scheduler.yaml").write_text(f"access:\n  keys:\n  - {key}\n")
    for words in (["config"], ["config", "--show"], ["serve"]):
        assert "go_scheduler.yaml, line 3: access.keys.0.hash: hash of the key" in (
            shell.refusal(*words, where=False)
        )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["serve", "--port", "99999"], "--port: it must be at most 65535"),
        (
            ["dashboard", "--store", "sqlite:///a.db", "--port", "99999"],
            "--port: it must be at most 65535",
        ),
        (["serve", "--host", "0.0.0.0"], "--host: without authentication it is for"),
        (["serve", "--config", "none.yaml"], "there is no file none.yaml"),
    ],
)
def test_a_wrong_option_is_told_in_one_sentence(
    shell: Shell, words: list[str], told: str
) -> None:
    refusal = shell.refusal(*words, where=False)
    assert refusal.startswith(f"go_scheduler: {told}")
    assert len(refusal.splitlines()) == 1


@pytest.mark.parametrize(("clean", "code"), [(True, 0), (False, 1)])
def test_what_is_left_behind_is_told_by_the_exit_code(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, clean: bool, code: int
) -> None:
    given: list[object] = []

    def serve(settings: object, **more: object) -> bool:
        given.append(more["runs"])
        return clean

    monkeypatch.setattr("go_scheduler.http.serving.serve", serve)
    shell("serve", "--port", "0", where=False, code=code)
    shell("serve", "--no-run", "--store", "sqlite:///a.db", where=False, code=code)
    assert given == [True, False]
