"""The running server: its address, its stop, and its log."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import ssl
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from go_scheduler.client import Client
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.http import serve
from go_scheduler.http.access.authentication import new_key
from go_scheduler.http.configuration.loading import load_configuration
from go_scheduler.http.limits import Threads
from go_scheduler.http.logs import JsonLines, TextLines
from go_scheduler.models import State
from go_scheduler.stores import open_store
from go_scheduler.stores.filters import Page
from go_scheduler.stores.sqlite import SQLiteStore
from tests.http.certificates import certificate
from tests.http.serving import get
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.http.configuration.sections import Configuration

EMBEDDED = "sqlite:///go_scheduler.db"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings_of(text: str = "", port: int = 0) -> Configuration:
    Path("settings.yaml").write_text(text)
    options = {"--port": ("server.port", port)}
    return load_configuration(Path("settings.yaml"), options=options)


def served(
    settings: Configuration,
    use: Callable[[str], object],
    *,
    number: int = signal.SIGTERM,
    **options: Any,
) -> tuple[bool, list[str]]:
    """Serve, call a function with the URL, and send a signal; returns the result."""
    said: list[str] = []
    problems: list[BaseException] = []

    def use_and_stop(url: str) -> None:
        try:
            use(url)
        except BaseException as error:
            problems.append(error)
        os.kill(os.getpid(), number)

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("go_scheduler listens on "):
            url = text.split()[3].rstrip(",")
            threading.Thread(target=use_and_stop, args=(url,)).start()

    ended = serve(settings, say=say, **options)
    if problems:
        raise problems[0]
    return ended, said


def connected(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), FAILED_AFTER)


def is_well(url: str) -> None:
    for path in ("/healthz", "/readyz"):
        assert get(url + path).json() == {"status": "ok"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "runs"), [(signal.SIGTERM, True), (signal.SIGINT, False)]
)
def test_it_serves_a_file_in_the_working_folder_until_a_signal(
    number: int, runs: bool
) -> None:
    """The server is a node, unless it only answers."""

    def use(url: str) -> None:
        is_well(url)
        with closing(open_store(EMBEDDED)) as store:
            assert [each.alive for each in Client(store).nodes()] == [True] * runs

    ended, said = served(settings_of(), use, number=number, runs=runs)
    assert ended
    assert said[0].startswith(f"no store is named: it is {EMBEDDED}")
    assert said[1].endswith("/openapi.json describes it")
    assert Path("go_scheduler.db").exists()


@pytest.mark.slow
def test_the_store_is_closed_after_the_last_call_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    may_end = threading.Event()
    shutdown, close = Threads.shutdown, SQLiteStore.close

    def read(store: SQLiteStore, *_: object, **__: object) -> Page[object]:
        assert may_end.wait(FAILED_AFTER)
        order.append("read")
        return Page()

    def stop(threads: Threads, wait: bool = True) -> None:
        if wait:
            may_end.set()
        shutdown(threads, wait)

    def end(store: SQLiteStore) -> None:
        order.append("closed")
        may_end.set()
        close(store)

    def use(url: str) -> None:
        # This client does not wait for its answer.
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(f"{url}/v1/definitions", timeout=0.2)

    monkeypatch.setattr(SQLiteStore, "select_definitions", read)
    monkeypatch.setattr(Threads, "shutdown", stop)
    monkeypatch.setattr(SQLiteStore, "close", end)
    served(settings_of("server: {drain: 0.1}"), use, runs=False)
    assert order == ["read", "closed"]


@pytest.mark.slow
@pytest.mark.parametrize("runs", [False, True])
def test_a_second_signal_ends_what_is_still_answered(
    runs: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    connections: list[socket.socket] = []

    def hang(url: str) -> None:
        connections.append(connected(url))
        # This path is answered when the body is there.
        connections[0].sendall(
            b"POST /v1/preview HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: 5\r\n\r\n"
        )
        # Another request is answered, so the server has taken that one as well.
        is_well(url)
        os.kill(os.getpid(), signal.SIGTERM)
        # The next signal is the second only if the first has arrived.
        with suppress(httpx.TransportError):
            while True:
                get(f"{url}/healthz")

    text = "server: {read_timeout: 10m, write_timeout: 10m, drain: 10m}"
    ended, _ = served(settings_of(text), hang, runs=runs)
    assert not ended
    connections[0].close()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_client_that_is_slow_to_ask_is_cut_off() -> None:
    def ask(url: str) -> None:
        with connected(url) as connection:
            told = b""
            # A client that was slow to connect as well gets no answer.
            with suppress(ConnectionError):
                connection.sendall(b"GET /healthz HTTP/1.1\r\n")
                told = connection.recv(13)
            assert told in (b"HTTP/1.1 408 ", b"")

    assert served(settings_of("server: {head_timeout: 0.1}"), ask)[0]


@pytest.mark.slow
def test_it_runs_its_own_types_of_jobs() -> None:
    made = new_key()
    text = f"""
types: {{shell: {{commands: {{hello: {{arguments: [echo, hello]}}}}}}}}
access: {{keys: [{{subject: ann, hash: '{made.kept}', scopes: [admin, workers]}}]}}
"""

    def submit(url: str) -> None:
        with closing(open_store(EMBEDDED)) as store:
            client = Client(store)
            job = client.enqueue("shell", payload={"command": "hello"})
            while client.get_instance(job.id).state is not State.COMPLETED:
                pass
            [node] = client.nodes()
            assert node.queues == ("server",)
        headers = {"Authorization": f"Bearer {made.key}"}
        assert get(f"{url}/v1/work?queues=a&wait=0", headers=headers).status_code == 204

    assert served(settings_of(text), submit)[0]


@pytest.mark.slow
def test_it_serves_by_tls(tmp_path: Path) -> None:
    certificate(tmp_path, password=b"secret")
    text = """
server:
  tls_certificate: certificate.pem
  tls_key: key.pem
  tls_key_password: secret
  root_path: /jobs
"""
    trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))

    def ask(url: str) -> None:
        assert url.startswith("https://127.0.0.1:")
        url = url.replace("127.0.0.1", "localhost")
        assert get(f"{url}/healthz", verify=trusted).status_code == 200

    assert served(settings_of(text), ask)[0]


@pytest.mark.slow
def test_it_serves_by_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")

    def ask(url: str) -> None:
        assert url.startswith("http://[::1]:")
        is_well(url)

    assert served(settings_of("server: {host: '::1'}"), ask)[0]


KEY = f"{{subject: ann, hash: '{'a' * 8}:{'b' * 64}', scopes: [admin]}}"
TLS = "server: {{tls_certificate: {}.pem, tls_key: {}.pem}}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TLS.format("none", "none"), "No such file"),
        (TLS.format("certificate", "certificate"), "be used: "),
        (TLS.format("certificate", "key"), "cannot be used: "),
        ("server: {host: 127.0.0.256}", "without authentication"),
        (
            f"server: {{host: 192.0.2.1}}\naccess: {{keys: [{KEY}]}}",
            "is no address of this machine",
        ),
        (
            f"server: {{host: no host}}\naccess: {{keys: [{KEY}]}}",
            "cannot be listened on",
        ),
    ],
)
def test_wrong_settings_are_refused_at_once(
    text: str, told: str, tmp_path: Path
) -> None:
    certificate(tmp_path, password=b"secret")
    with pytest.raises(ConfigurationError, match=told):
        serve(settings_of(text))


def test_a_port_that_is_taken_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port} is taken"):
            serve(settings_of(port=port))
    # Messages are printed if no function takes them.
    assert capsys.readouterr().out.startswith("no store is named")


def test_a_store_that_is_away_is_an_error() -> None:
    with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
        serve(settings_of("store: postgresql://127.0.0.1:1/jobs"))


@pytest.mark.slow
def test_requests_are_logged_as_json_without_secrets(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def ask(url: str) -> None:
        is_well(url)
        get(f"{url}/none?token=secret", headers={"Authorization": "secret"})
        given: list[dict[str, Any]] = [
            {"json": {}},
            {"headers": {"Origin": "http://a"}},
        ]
        for options in given:
            httpx.post(f"{url}/v1/preview", timeout=FAILED_AFTER, **options)

    served(settings_of("log: {format: json}"), ask)
    lines = [json.loads(each) for each in capfd.readouterr().err.splitlines()]
    [read, made, refused] = [
        each for each in lines if each["logger"].startswith("go_scheduler.http")
    ]
    fields = {"path": "/v1/preview", "status": 422, "subject": "anybody"}
    assert made.items() >= fields.items()
    assert "was refused by 403: without authentication no" in refused["message"]
    assert read["message"].startswith("GET '/none': 404, ")
    fields = {"method": "GET", "path": "/none", "status": 404, "client": "127.0.0.1"}
    assert read.items() >= fields.items()
    assert read["duration_ms"] >= 0
    assert "secret" not in json.dumps(lines)
    assert any("starts" in each["message"] for each in lines)
    assert {each["level"] for each in lines} == {"info"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("log_polls: true", ["/healthz", "/none"]),
        ("requests: false", []),
        ("level: warning", []),
    ],
)
def test_settings_choose_the_requests_that_are_logged(
    text: str, paths: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    level = logging.getLogger().level

    def ask(url: str) -> None:
        is_well(url)
        # This client leaves before the whole answer has come.
        with connected(url) as connection:
            connection.sendall(b"GET /none HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            assert connection.recv(9) == b"HTTP/1.1 "

    served(settings_of(f"log: {{{text}}}"), ask, runs=False)
    errors = capfd.readouterr().err
    logged = [each for each in ("/healthz", "/none") if f"GET '{each}': " in errors]
    assert logged == paths
    assert "uvicorn" not in errors
    assert logging.getLogger().level == level


def test_nobody_writes_a_line_of_their_own_into_the_log() -> None:
    words = "no paper\n2030-01-01 00:00:00,000 ERROR   go_scheduler: gone\x1b[31m\r"
    record = logging.LogRecord("a", logging.ERROR, "b", 1, "it said %s", (words,), None)
    first, second = TextLines().format(record).splitlines()
    assert first.endswith("ERROR   a: it said no paper")
    assert second == (
        "    2030-01-01 00:00:00,000 ERROR   go_scheduler: gone\\x1b[31m\\r"
    )


def test_an_exception_is_a_field_of_a_line_of_json() -> None:
    error = ValueError("no paper")
    info = (ValueError, error, None)
    record = logging.LogRecord("a", logging.ERROR, "b", 1, "%s: %d", ("x", 7), info)
    record.number = 7
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["number"]) == ("x: 7", 7)
    assert "ValueError: no paper" in line["exception"]
    assert line["time"].endswith("Z")
