"""The commands about a server; and a server that is named, and told who calls."""

from __future__ import annotations

import json
import re
import shutil
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import httpx
import pytest

from go_scheduler import (
    ConfigurationError,
    GoSchedulerError,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.cli.commands import serving
from go_scheduler.cli.options import tokens_for
from go_scheduler.client import Client
from go_scheduler.clock import SystemClock
from go_scheduler.http import create_app
from go_scheduler.http.access.authentication import (
    ApiKey,
    ApiKeys,
    BearerAccess,
    new_key,
)
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.login import Login, TokenFile
from go_scheduler.http.configuration.loading import load_configuration
from go_scheduler.http.remote import Remote
from go_scheduler.http.remote_errors import (
    CallerError,
    NotAllowedError,
    RefusedError,
    error_of,
)
from go_scheduler.stores import MemoryStore, open_store
from go_scheduler.triggers import OnDemandTrigger
from tests.cli.shell import ROOT, Process, Shell
from tests.handlers.mail_servers import mail_server
from tests.handlers.receivers import receiving
from tests.http.access.provider import AUDIENCE, CLIENT, Provider, provider
from tests.http.serving import get, served

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    assert '  url: "postgresql://ann:***@host/jobs"  # go_scheduler.yaml' in shown
    assert "  port: 8710  # default" in shown
    objects = shell("config", "--show", "--json", where=False).splitlines()
    assert '{"setting":"server.port","value":8710,"origin":"default"}' in objects
    assert "--json is of use" in shell.refusal("config", "--json", where=False)
    Path("go_scheduler.yaml").write_text("server: {prot: 1}")
    assert "yaml: server.prot: there is no such setting: did you mean port?" in (
        shell.refusal("config", where=False)
    )
    key = "{subject: ann, hash: gs_x, scopes: [admin]}"
    Path("go_scheduler.yaml").write_text(f"access:\n  keys:\n  - {key}\n")
    for words in (["config"], ["config", "--show"], ["serve"]):
        assert "go_scheduler.yaml: access.keys.0.hash: hash of the key" in (
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
    known = [each.made() for each in load_configuration(file).access.keys]
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


@pytest.mark.slow
def test_a_server_is_named_by_an_option_or_by_the_environment(
    shell: Shell, far: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_SCHEDULER_SERVER", far.url)
    assert "DEFINITION" in far("list", where=False)
    assert "DEFINITION" in shell("list")
    monkeypatch.setenv("GO_SCHEDULER_STORE", shell.url)
    assert "are both set: say --store or --server" in shell.refusal("list", where=False)
    assert "say --store or --server, not both" in far.refusal(
        "list", "--store", shell.url
    )
    monkeypatch.setenv("GO_SCHEDULER_SERVER", "")
    assert "DEFINITION" in far("list", where=False)


@pytest.mark.slow
def test_a_token_says_who_asks(
    shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_key()
    key = ApiKey(subject="ann", hash=made.kept, scopes=["jobs:read"])
    with closing(open_store(shell.url)) as store:
        app = create_app(Client(store), access=BearerAccess(keys=[key]))
        with served(app) as (host, port):
            far = Shell(f"http://{host}:{port}", capsys, store=shell.url)
            assert far.refusal("list", code=4).endswith(
                "; set GO_SCHEDULER_TOKEN, to an API key for example, or log in by"
                " `go_scheduler login`\n"
            )
            monkeypatch.setenv("GO_SCHEDULER_TOKEN", made.key)
            assert "DEFINITION" in far("list")
            told = far.refusal("add", "x", "--on-demand", code=4)
            assert "the scope jobs:write, which the caller has not" in told
            assert '`go_scheduler login --scope "openid jobs:write"`' in told
            assert "GO_SCHEDULER_TOKEN" in told


@pytest.mark.slow
def test_a_login_is_sent_until_it_has_expired(far: Shell) -> None:
    login = Login(
        issuer="http://127.0.0.1:1",
        client_id="cli",
        scope="openid",
        access="secret",
        refresh=None,
        expires_at=None,
    )
    TokenFile().put(far.url, login)
    assert "DEFINITION" in far("list")
    expired = replace(login, expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    TokenFile().put(far.url, expired)
    assert "the login has expired: log in again" in far.refusal("list", code=4)


def test_a_worker_reads_the_token_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tokens_for("http://127.0.0.1:8710") is None
    monkeypatch.setenv("GO_SCHEDULER_TOKEN", "a")
    tokens = tokens_for("http://127.0.0.1:8710")
    assert tokens is not None
    monkeypatch.setenv("GO_SCHEDULER_TOKEN", "b")
    assert tokens() == "b"


def test_a_token_is_sent_by_https_alone(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_SCHEDULER_TOKEN", "secret")
    for words in (["list"], ["worker", "os:getcwd"]):
        told = shell.refusal(*words, "--server", "http://a.example", where=False)
        assert "is sent by https alone" in told
        assert "secret" not in told


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"hello", GoSchedulerError),
        (302, b"", GoSchedulerError),
        (404, b"hello", RefusedError),
        (500, b"[]", RefusedError),
        (503, b"{}", StoreUnavailableError),
        (422, b'{"detail": "no"}', ConfigurationError),
        (403, b"{}", NotAllowedError),
    ],
)
def test_answers_of_a_strange_server_are_errors(
    status: int, body: bytes, kind: type[Exception]
) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=body))
    with Remote("http://127.0.0.1/", transport=transport) as remote:
        with pytest.raises(kind):
            remote.counts_up_to()
        if status == 200:
            with pytest.raises(GoSchedulerError, match="is no server of go_scheduler"):
                remote.import_jobs(b"{}", {})


def test_a_problem_keeps_its_words_and_the_scope_that_is_missing() -> None:
    for id in (None, uuid4()):
        ended = {"type": "urn:go_scheduler:state", "detail": "it has ended"}
        error = error_of(409, ended, id)
        assert isinstance(error, RefusedError)
        assert str(error) == "it has ended"
    # Without authentication no token would help.
    local = {"type": "urn:go_scheduler:not-local"}
    assert type(error_of(403, local, None)) is NotAllowedError
    problem = {"type": "urn:go_scheduler:scope", "detail": "not you"}
    challenge = 'Bearer realm="a", error="insufficient_scope", scope="jobs:write"'
    for said, scope in ((challenge, "jobs:write"), ('Bearer realm="a"', None)):
        caller = error_of(403, problem, None, said)
        assert isinstance(caller, CallerError)
        assert (caller.scope, str(caller)) == (scope, "not you")


@pytest.mark.slow
def test_a_definition_is_scheduled_as_new_or_by_its_id(server: str) -> None:
    with Remote(server) as remote:
        new = remote.schedule(TaskDefinition(trigger=OnDemandTrigger(), name="a"))
        again = remote.schedule_all([new, TaskDefinition(trigger=OnDemandTrigger())])
        assert again[0] == new
        assert len(remote.list_definitions()) == 2


@pytest.fixture(scope="module")
def issuing() -> Iterator[Provider]:
    with provider() as found:
        yield found


@pytest.fixture
def issued(issuing: Provider, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A shell on a server that takes the provider's tokens."""
    issuing.forget()
    issuer = OidcIssuer(issuer=issuing.issuer, audience=AUDIENCE, client_id=CLIENT)
    app = create_app(Client(MemoryStore()), access=BearerAccess(issuer=issuer))
    with served(app) as (host, port):
        yield Shell(f"http://{host}:{port}", capsys, store="")


@pytest.mark.slow
def test_whoever_signs_in_by_a_device_is_let_in_until_they_sign_out(
    issued: Shell, issuing: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def read(text: str) -> None:
        said.append(text)
        if text.startswith("open "):
            assert get(text.split()[1]).status_code == 200

    monkeypatch.setattr(serving, "line", read)
    issued.refusal("list", code=4)
    issued("login", "--scope", "openid jobs:read")
    assert said[-1] == f"signed in to {issued.url}"
    assert len(issuing.refreshes) == 1
    assert "DEFINITION" in issued("list")
    monkeypatch.setenv("GO_SCHEDULER_SERVER", issued.url)
    issued("logout", where=False)
    assert said[-1] == f"signed out of {issued.url}"
    assert issuing.refreshes == {}
    issued.refusal("list", code=4)
    issued("logout", code=1)
    assert said[-1] == f"nobody was signed in to {issued.url}"


@pytest.mark.slow
def test_whoever_signs_in_by_a_browser_is_let_in(
    issued: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    browsing: list[Future[httpx.Response]] = []
    with ThreadPoolExecutor() as browser:

        def browse(url: str) -> None:
            browsing.append(browser.submit(get, url, follow_redirects=True))

        monkeypatch.setattr("webbrowser.open", browse)
        assert issued("login", "--browser", "--scope", "openid jobs:read").startswith(
            "signed in to "
        )
    assert "Close this page" in browsing[0].result().text
    assert "DEFINITION" in issued("list")


def test_what_keeps_from_signing_in_is_told(shell: Shell) -> None:
    assert "say where: --server URL" in shell.refusal("login", where=False)
    shell.refusal("login", "--server", "http://127.0.0.1:1", where=False, code=4)
