"""A server is named, told who calls, by a login too; what it answers is understood."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
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
from go_scheduler.cli.commands import server
from go_scheduler.cli.connection import tokens_for
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.keys import ApiKey, new_key
from go_scheduler.http.access.login import Login, TokenFile
from go_scheduler.http.remote import Remote
from go_scheduler.http.remote_errors import (
    CallerError,
    NotAllowedError,
    RefusedError,
    error_of,
)
from go_scheduler.stores import MemoryStore, open_store
from go_scheduler.triggers import OnDemandTrigger
from tests.cli.shell import Shell
from tests.http.access.provider import AUDIENCE, CLIENT, Provider, provider
from tests.http.serving import get, served

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.slow


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
    assert "this is done on a store" in far.refusal("migrate")
    monkeypatch.setenv("GO_SCHEDULER_SERVER", "")
    assert "DEFINITION" in far("list", where=False)


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
    issuer = OidcIssuer(issuer=issuing.issuer, audience=AUDIENCE, client_id=CLIENT)
    app = create_app(Client(MemoryStore()), access=BearerAccess(issuer=issuer))
    with served(app) as (host, port):
        yield Shell(f"http://{host}:{port}", capsys, store="")


def test_whoever_signs_in_by_a_device_is_let_in_until_they_sign_out(
    issued: Shell, issuing: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def read(text: str) -> None:
        said.append(text)
        if text.startswith("open "):
            assert get(text.split()[1]).status_code == 200

    monkeypatch.setattr(server, "line", read)
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
