"""Every command by a server does and prints what it does by the store."""

from __future__ import annotations

import json
import threading
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
    Fail,
    GoSchedulerError,
    Scheduler,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.cli.connection import tokens_for
from go_scheduler.client import Client
from go_scheduler.events import InstanceFinished
from go_scheduler.http import create_app
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.keys import ApiKey, new_key
from go_scheduler.http.access.login import Login, TokenFile
from go_scheduler.http.remote import Remote
from go_scheduler.http.remote_errors import (
    CallerError,
    NotAllowedError,
    RefusedError,
    error_of,
)
from go_scheduler.stores import open_store
from go_scheduler.triggers import OnDemandTrigger
from tests.cli.shell import Shell
from tests.http.serving import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from go_scheduler import TaskInstance
    from go_scheduler.events import Event


pytestmark = pytest.mark.slow


def same(shell: Shell, far: Shell, *words: str, code: int = 0) -> str:
    """What a command prints, by the store and by the server alike."""
    near, near_errors = shell(*words, code=code), shell.errors
    assert far(*words, code=code) == near
    assert far.errors == near_errors
    return near


def test_definitions_are_the_same(shell: Shell, far: Shell) -> None:
    far(
        *("add", "report", "--cron", "0 9 * * *", "--timezone", "Europe/Berlin"),
        *("--metadata", '{"team": "a"}', "--expire-after", "10m", "--timeout", "5m"),
        *("--start-timeout", "4m", "--heartbeat-timeout", "3m"),
        *("--max-attempts", "3", "--retry-delay", "10s", "--catch-up", "all"),
        *("--jitter", "2s", "--overlap", "skip", "--lock", "disk", "--priority", "2"),
        *("--key", "nightly"),
    )
    assert far.errors == ""
    far("add", "odd", "--cron", "0 9 13 * fri")
    assert far.errors.startswith("beware: ")
    far("pause", "odd", "--note", "not yet")
    for words in (
        ["list"],
        ["list", "--json"],
        ["list", "--state", "paused", "--json"],
        ["list", "--metadata", '{"team": "a"}', "--soonest-first"],
        ["list", "--name", "odd", "--limit", "1"],
        ["show", "report"],
        ["show", "odd", "--json"],
        ["why", "report", "--at", "2030-01-01T07:30:00Z", "--json"],
        ["why", "odd"],
        ["stats", "--json"],
    ):
        same(shell, far, *words)
    [shown] = shell.json("show", "report")
    assert shown["id"] == str(TaskDefinition.id_for("nightly"))
    assert (shown["start_timeout"], shown["heartbeat_timeout"]) == (240, 180)
    assert far.json("show", shown["id"][:8]) == [shown]
    assert "resumed" in far("resume", "odd")
    assert shell.json("show", "odd")[0]["state"] == "active"
    assert far("delete", "odd", "report", "--yes").count("deleted") == 2
    assert shell.json("list") == []


def test_instances_are_the_same(shell: Shell, far: Shell) -> None:
    shell("add", "send", "--on-demand", "--max-attempts", "1", "--key", "task send")
    [made] = far.json("run", "send", "--payload", '{"order": 7}', "--key", "7")
    assert far.json("run", "send", "--key", "7")[0]["id"] == made["id"]
    later = far.json("run", "send", "--at", "2030-01-01T09:00:00Z")[0]["id"]
    far("run", "send", "--delay", "1d")
    Path("lines").write_text('{"type": "send", "key": "8"}\n{"type": "none"}\n')
    assert far.json("import", "lines", code=1)[0]["jobs"] == 1
    assert "knows the type 'none'" in far.errors
    for words in (
        ["list", "-i"],
        ["list", "-i", "--json"],
        ["list", "-i", "--definition", "send", "--state", "pending", "--limit", "2"],
        ["list", "-i", "--since", "2029-12-31T00:00:00+01:00", "--json"],
        ["show", later[:13]],
        ["show", later, "--json"],
        ["why", later],
    ):
        same(shell, far, *words)
    near, by_http = shell.json("why", later)[0], far.json("why", later)[0]
    assert {**near, "at": None} == {**by_http, "at": None}
    assert "cancelled" in far("cancel", later)
    same(shell, far, "show", later, "--json")
    assert "ended before" in same(shell, far, "cancel", later, code=1)


def test_what_has_run_is_the_same(shell: Shell, far: Shell) -> None:
    ended = threading.Semaphore(0)

    def tell(event: Event) -> None:
        if isinstance(event, InstanceFinished):
            ended.release()

    def handler(instance: TaskInstance) -> None:
        raise Fail("no paper")

    for name in ("send", "late"):
        shell("add", name, "--on-demand", "--drop-after", "1h")
    [failed] = far.json("run", "send")
    far("run", "late", "--at", "2020-01-01T00:00:00Z")
    with (
        closing(open_store(shell.url)) as store,
        Scheduler(handler, store, listeners=[tell]),
    ):
        for _ in range(2):
            assert ended.acquire(timeout=FAILED_AFTER)
        [node] = far.json("nodes")
        assert node["alive"]
    same(shell, far, "nodes")
    same(shell, far, "nodes", "--json")
    for state in ("failed", "skipped"):
        same(shell, far, "list", "-i", "--state", state, "--json")
    same(shell, far, "show", failed["id"])
    same(shell, far, "why", failed["id"])
    assert far.json("why", failed["id"])[0]["node"]["id"] == node["id"]
    assert "1" in same(shell, far, "stats")
    assert far.json("retry", "--name", "send")[0]["state"] == "pending"
    same(shell, far, "retry", failed["id"], code=1)


def test_what_is_refused_is_told_the_same(shell: Shell, far: Shell) -> None:
    id = str(uuid4())
    for words, code in (
        (["show", "none"], 1),
        (["show", id], 1),
        (["why", id], 1),
        (["pause", id], 1),
        (["delete", id], 1),
        (["cancel", id], 1),
        (["retry", id], 1),
        (["retry", "--name", "none"], 1),
        (["pause", "--queue", "none"], 1),
        (["run", id], 1),
        (["list", "--state", "asleep"], 2),
        (["add", "x", "--cron", "61 * * * *"], 2),
    ):
        near = shell(*words, code=code) + shell.errors
        by_http = far(*words, code=code) + far.errors
        if "asleep" not in words:
            assert by_http == near
    line = json.dumps({"id": id, "trigger": {"every": 5}, "revision": 7})
    Path("lines").write_text(line)
    far("import", "lines", code=1)
    assert "line 1: " in far.errors
    assert "revision 7" in far.errors


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
            far = Shell(f"http://{host}:{port}", capsys, option="--server")
            assert far.refusal("list", code=4).endswith(
                "; who you are is said by GO_SCHEDULER_TOKEN, an API key say, or by"
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
    ("url", "code", "told"),
    [
        ("127.0.0.1:8710", 2, "begins with https:// or http://"),
        ("http://a:b", 2, "is no URL"),
        ("ftp://a", 2, "begins with https:// or http://"),
        ("http://127.0.0.1:1", 3, "http://127.0.0.1:1 does not answer"),
    ],
)
def test_a_wrong_server_is_told(shell: Shell, url: str, code: int, told: str) -> None:
    words = ("list", "--server", url)
    assert told in shell.refusal(*words, where=False, code=code)


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
