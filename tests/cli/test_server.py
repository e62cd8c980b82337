"""The commands `serve`, `config` and `key`."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

import httpx
import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.http.access.keys import ApiKey, ApiKeys
from go_scheduler.http.configuration.loading import load_configuration
from tests.cli.shell import ROOT, Process, Shell
from tests.handlers.mail_servers import mail_server
from tests.handlers.receivers import receiving
from tests.http.serving import get


@pytest.mark.slow
@pytest.mark.chaos
def test_a_server_that_is_killed_is_started_again_on_its_store(tmp_path: Path) -> None:
    """It needs no word but its own in an empty folder."""
    for words, number, code in (
        ((), signal.SIGKILL, -9),
        (("--host", "127.0.0.1", "--no-run"), signal.SIGTERM, 0),
    ):
        server = Process("serve", "--port", "0", *words, cwd=tmp_path)
        url = server.listening()
        assert "no store is named: it is sqlite:///go_scheduler.db" in server.said
        assert get(f"{url}/healthz").status_code == 200
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
        checked = Process("config", cwd=tmp_path, **here)
        assert checked.until("go_scheduler.yaml is right")
        assert checked.end() == 0
        server = Process("serve", "--port", "0", cwd=tmp_path, **here)
        url = server.listening()
        mail = {"to": "ada@example.org", "subject": "Hello", "text": "Hello Ada"}
        for name, payload in (
            ("word count", {"text": "to be or not", "least": 3}),
            ("webhook", {"url": f"http://127.0.0.1:{receiver.port}/204"}),
            ("email", mail),
        ):
            job = {"type": name, "payload": payload}
            submitted = httpx.post(f"{url}/v1/jobs", json=job).json()
            instance = f"{url}/v1/instances/{submitted['instance_id']}"
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


KEY = ("key", "mail workers", "-s", "workers")


def test_a_key_is_let_in_by_what_is_to_be_configured(
    shell: Shell, tmp_path: Path
) -> None:
    words = (*KEY, "--scope", "runs:read", "-q", "mail")
    file = tmp_path / "go_scheduler.yaml"
    file.write_text(shell(*words, where=False))
    [key] = re.findall(r"gs_\S+", shell.errors)
    assert key not in file.read_text()
    known = [each.key() for each in load_configuration(file).settings.access.keys]
    caller = ApiKeys(known, SystemClock()).caller_of(key)
    assert caller.subject == "mail workers"
    assert caller.scopes == {"workers", "runs:read"}
    assert (caller.queues, caller.owners) == ({"mail"}, None)
    # Scripts are told both at once.
    told = json.loads(shell(*KEY, "--owner", "shop", "--json", where=False))
    key = told.pop("key")
    caller = ApiKeys([ApiKey(**told)], SystemClock()).caller_of(key)
    assert (caller.queues, caller.owners) == (None, {"shop"})


@pytest.mark.parametrize("words", [[], ["-s", "everything"]])
def test_a_key_that_allows_nothing_is_none(shell: Shell, words: list[str]) -> None:
    told = shell.refusal("key", "a", *words, where=False)
    assert "scope" in told
    assert "gs_" not in told
