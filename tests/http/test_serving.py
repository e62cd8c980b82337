"""The server as it is run: where it listens, how it ends, and what it logs."""

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
from go_scheduler.http.access.keys import new_key
from go_scheduler.http.configuration.loading import load_configuration
from go_scheduler.http.logs import JsonLines, TextLines
from go_scheduler.models import State
from go_scheduler.stores import open_store
from tests.conftest import SHARED
from tests.http.certificates import certificate
from tests.http.serving import get
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.http.configuration.loading import Configuration


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings_of(text: str = "", port: int = 0) -> Configuration:
    Path("settings.yaml").write_text(text)
    options = {"--port": (("server", "port"), port)}
    return load_configuration(
        Path("settings.yaml"),
        options=options,
        environment={},
    ).settings


def served(
    settings: Configuration,
    use: Callable[[str], object],
    *,
    number: int = signal.SIGTERM,
    **options: Any,
) -> tuple[bool, list[str]]:
    """Serve until this has been done with the URL; what came of it, and was said."""
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


def answers(url: str) -> None:
    for path in ("/healthz", "/readyz"):
        assert get(url + path).json() == {"status": "ok"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_a_file_in_the_working_folder_until_a_signal(number: int) -> None:
    ended, said = served(settings_of(), answers, number=number)
    assert ended
    assert said[0].startswith("no store is named: it is sqlite:///go_scheduler.db")
    assert said[1].endswith("/openapi.json describes it")
    assert Path("go_scheduler.db").exists()


@pytest.mark.parametrize("engine", SHARED)
def test_it_is_a_node_unless_it_only_answers(store_url: str) -> None:
    settings = settings_of(f"store: {store_url}")
    for runs in (False, True):
        alive: list[bool] = []

        def look(url: str, alive: list[bool] = alive) -> None:
            answers(url)
            with closing(open_store(store_url)) as store:
                alive += [each.alive for each in Client(store).nodes()]

        ended, said = served(settings, look, runs=runs)
        assert ended
        assert len(said) == 1
        assert alive == [True] * runs


@pytest.mark.slow
def test_a_second_signal_ends_what_is_still_answered(
    capfd: pytest.CaptureFixture[str],
) -> None:
    sent = threading.Event()

    def hang(url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        connection = socket.create_connection((host, int(port)))
        connection.sendall(
            # Of a path that is answered when the body is there.
            b"POST /v1/preview HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: 5\r\n\r\n"
        )
        # Another request is answered, so that one has been taken as well.
        answers(url)
        os.kill(os.getpid(), signal.SIGTERM)
        connections.append(connection)
        # The next signal is another one only if the first has come.
        while True:
            try:
                get(f"{url}/healthz")
            except httpx.TransportError:
                break
        sent.set()

    for runs in (False, True):
        connections: list[socket.socket] = []
        ended, _ = served(
            settings_of("server: {read_timeout: 10m, write_timeout: 10m, drain: 10m}"),
            hang,
            runs=runs,
        )
        assert not ended
        [connection] = connections
        connection.close()
    assert sent.is_set()
    assert "Traceback" not in capfd.readouterr().err


KEY = f"{{subject: ann, hash: '{'a' * 8}:{'b' * 64}', scopes: [admin]}}"


def test_commands_are_run_for_those_who_say_who_they_are_alone() -> None:
    text = "types: {shell: {commands: {a: {arguments: [echo]}}}}"
    with pytest.raises(
        ConfigurationError, match=r"types\.shell: it runs commands, and"
    ):
        serve(settings_of(text))


@pytest.mark.slow
def test_who_takes_too_long_to_ask_is_not_waited_for() -> None:
    def ask(url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), FAILED_AFTER) as connection:
            told = b""
            # Who was slow as well is hung up on, and may be told nothing.
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
        with closing(open_store("sqlite:///go_scheduler.db")) as store:
            client = Client(store)
            job = client.enqueue("shell", payload={"command": "hello"})
            while client.get_instance(job.id).state is not State.COMPLETED:
                pass
            [node] = client.nodes()
            assert node.queues == ("server",)
        headers = {"Authorization": f"Bearer {made.key}"}
        response = get(f"{url}/v1/work?queues=a&wait=0", headers=headers)
        assert response.status_code == 204

    assert served(settings_of(text), submit)[0]


@pytest.mark.slow
def test_it_serves_by_tls(tmp_path: Path) -> None:
    certificate(tmp_path, password=b"secret")
    settings = settings_of(
        "server:\n  tls_certificate: certificate.pem\n  tls_key: key.pem\n"
        "  tls_key_password: secret\n  root_path: /jobs\n"
    )
    trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))

    def ask(url: str) -> None:
        assert url.startswith("https://127.0.0.1:")
        url = url.replace("127.0.0.1", "localhost")
        assert get(f"{url}/healthz", verify=trusted).status_code == 200

    assert served(settings, ask)[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tls_certificate: none.pem, tls_key: none.pem", "No such file"),
        ("tls_certificate: certificate.pem, tls_key: certificate.pem", "be used: "),
        ("tls_certificate: certificate.pem, tls_key: key.pem", "cannot be used: "),
        ("host: 0.0.0.0", "without authentication it is for this machine alone"),
        ("host: 127.0.0.256", "without authentication"),
    ],
)
def test_what_cannot_be_served_is_told_at_once(
    text: str, told: str, tmp_path: Path
) -> None:
    certificate(tmp_path, password=b"secret")
    with pytest.raises(ConfigurationError, match=told):
        serve(settings_of(f"server: {{{text}}}"))


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port} is taken"):
            serve(settings_of(port=port))


def test_an_address_of_another_machine_is_told() -> None:
    text = f"server: {{host: 192.0.2.1}}\naccess: {{keys: [{KEY}]}}"
    with pytest.raises(ConfigurationError, match="is no address of this machine"):
        serve(settings_of(text))
    text = f"server: {{host: no host}}\naccess: {{keys: [{KEY}]}}"
    with pytest.raises(ConfigurationError, match="cannot be listened on"):
        serve(settings_of(text))


@pytest.mark.slow
def test_by_the_sixth_version_of_the_protocol() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")

    def ask(url: str) -> None:
        assert url.startswith("http://[::1]:")
        answers(url)

    assert served(settings_of("server: {host: '::1'}"), ask)[0]


def test_a_store_that_is_away_is_told() -> None:
    settings = settings_of("store: postgresql://127.0.0.1:1/jobs")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
        serve(settings)


@pytest.mark.slow
def test_requests_are_logged_as_json_without_what_is_secret(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def ask(url: str) -> None:
        answers(url)
        get(f"{url}/none?token=secret", headers={"Authorization": "secret"})
        httpx.post(f"{url}/v1/preview", json={}, timeout=FAILED_AFTER)
        httpx.post(
            f"{url}/v1/preview", headers={"Origin": "http://a"}, timeout=FAILED_AFTER
        )

    served(settings_of("log: {format: json}"), ask)
    lines = [json.loads(each) for each in capfd.readouterr().err.splitlines()]
    # One line for each.
    [told, made, refused] = [
        each for each in lines if each["logger"].startswith("go_scheduler.http")
    ]
    assert (made["path"], made["status"], made["subject"]) == (
        "/v1/preview",
        422,
        "anybody",
    )
    assert "was refused by 403: without authentication no" in refused["message"]
    assert told["message"].startswith("GET '/none': 404, ")
    assert (told["method"], told["path"], told["status"]) == ("GET", "/none", 404)
    assert told["client"] == "127.0.0.1"
    assert told["duration_ms"] >= 0
    assert told["level"] == "info"
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
def test_what_is_logged_of_requests_is_set(
    text: str, paths: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    level = logging.getLogger().level

    def ask(url: str) -> None:
        answers(url)
        get(f"{url}/none")

    served(settings_of(f"log: {{{text}}}"), ask, runs=False)
    errors = capfd.readouterr().err
    assert [
        each for each in ("/healthz", "/none") if f"GET '{each}'" in errors
    ] == paths
    assert "uvicorn" not in errors
    assert logging.getLogger().level == level


def test_nobody_whose_words_are_logged_writes_a_line_of_the_log() -> None:
    words = "no paper\n2030-01-01 00:00:00,000 ERROR   go_scheduler: gone\x1b[31m\r"
    record = logging.LogRecord("a", logging.ERROR, "b", 1, "it said %s", (words,), None)
    first, second = TextLines().format(record).splitlines()
    assert first.endswith("ERROR   a: it said no paper")
    assert second == (
        "    2030-01-01 00:00:00,000 ERROR   go_scheduler: gone\\x1b[31m\\r"
    )


def test_an_exception_is_a_field_of_its_line() -> None:
    try:
        raise ValueError("no paper")
    except ValueError as error:
        info: Any = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("a", logging.ERROR, "b", 1, "%s: %d", ("x", 7), info)
    record.number = 7
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["number"]) == ("x: 7", 7)
    assert "ValueError: no paper" in line["exception"]
    assert line["time"].endswith("Z")


@pytest.mark.slow
def test_a_request_that_is_broken_off_is_logged(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def ask(url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), FAILED_AFTER) as connection:
            connection.sendall(b"GET /none HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            assert connection.recv(9) == b"HTTP/1.1 "

    served(settings_of(), ask, runs=False)
    assert "GET '/none': 404" in capfd.readouterr().err


def test_it_prints_what_it_says_if_nobody_else_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigurationError),
    ):
        serve(settings_of(port=taken.getsockname()[1]))
    assert capsys.readouterr().out.startswith("no store is named")
