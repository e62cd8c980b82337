"""Without authentication this machine alone is answered, and no page of a browser's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from go_scheduler.http.access.authentication import OpenAccess
from go_scheduler.http.access.loopback import is_safe_url, may_bind_openly
from tests.http.access.house import JSON, PATHS, probing, sent, served

if TYPE_CHECKING:
    from collections.abc import Iterator

READ, WRITE = PATHS["jobs:read"], PATHS["jobs:write"]
PAGE = "http://localhost:3000"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(lambda _: probing(access=OpenAccess([PAGE]))) as port:
        yield port


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8710", "127.0.0.1", "127.9.9.9:80", "[::1]:8710"]
)
def test_a_name_of_this_machine_is_answered(port: int, host: str) -> None:
    status, answer = sent(port, f"GET {READ}", f"Host: {host}")
    assert status == 200
    assert '"subject":"anybody"' in answer
    assert all(scope in answer for scope in PATHS)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io:8710",
        "192.168.0.7",
        "0.0.0.0",
        "[::]",
        "[::ffff:10.0.0.1]",
        "localhost:8710:1",
        "localhost@evil.example",
        "127.1",
        "",
    ],
)
@pytest.mark.parametrize("path", [READ, "/healthz", "/openapi.json", "/none"])
def test_a_name_that_a_site_has_given_this_machine_is_refused(
    port: int, host: str, path: str
) -> None:
    status, answer = sent(port, f"GET {path}", f"Host: {host}")
    assert status == 403
    assert "urn:go_scheduler:not-local" in answer


def test_a_request_without_a_host_is_refused(port: int) -> None:
    status, _ = sent(port, f"GET {READ}")
    assert status in (400, 403)  # by the server, as its parser is, or by us


@pytest.mark.parametrize(
    "headers",
    [
        ["Origin: http://evil.example"],
        ["Origin: null"],
        ["Origin: http://127.0.0.1"],  # of another port
        ["Origin: https://127.0.0.1:{port}"],
        ["Origin: http://127.0.0.1:{port}", "Origin: http://evil.example"],
        ["Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: same-site"],
        ["Origin: http://127.0.0.1:{port}", "Sec-Fetch-Site: cross-site"],
        ["Forwarded: for=10.0.0.1"],
        ["X-Forwarded-For: 10.0.0.1"],
        ["X-Forwarded-Host: localhost"],
        ["X-Real-IP: 10.0.0.1"],
        ["Via: 1.1 proxy"],
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_a_page_or_a_proxy_sends_is_refused(
    port: int, method: str, headers: list[str]
) -> None:
    given = [each.format(port=port) for each in headers]
    status, answer = sent(port, f"{method} {WRITE}", f"Host: 127.0.0.1:{port}", *given)
    assert status == 403
    assert "urn:go_scheduler:not-local" in answer


@pytest.mark.parametrize(
    "headers",
    [
        ["Origin: http://127.0.0.1:{port}"],
        ["Origin: http://127.0.0.1:{port}", "Sec-Fetch-Site: same-origin"],
        ["Sec-Fetch-Site: none"],
        [f"Origin: {PAGE}", "Sec-Fetch-Site: same-site"],
    ],
)
def test_what_its_own_pages_or_those_named_send_is_answered(
    port: int, headers: list[str]
) -> None:
    given = [each.format(port=port) for each in headers]
    status, _ = sent(port, f"POST {WRITE}", f"Host: 127.0.0.1:{port}", *given)
    assert status == 200


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""],
)
def test_a_body_that_any_page_may_send_is_refused(port: int, kind: str) -> None:
    status, answer = sent(
        port,
        f"POST {WRITE}",
        "Host: localhost",
        f"Content-Type: {kind}",
        "Content-Length: 2",
        body="{}",
    )
    assert status == 415
    assert "urn:go_scheduler:media-type" in answer


@pytest.mark.parametrize("framing", ["Content-Length: 2", "Transfer-Encoding: chunked"])
def test_a_body_of_no_type_is_refused(port: int, framing: str) -> None:
    # What is not read is not waited for either.
    status, _ = sent(port, f"POST {WRITE}", "Host: localhost", framing)
    assert status == 415


@pytest.mark.parametrize(
    "kind",
    [
        JSON,
        f"{JSON}; charset=utf-8",
        "Content-Type: application/merge-patch+json",
    ],
)
def test_a_body_that_no_page_may_send_unasked_is_taken(port: int, kind: str) -> None:
    status, _ = sent(
        port, f"POST {WRITE}", "Host: localhost", kind, "Content-Length: 2", body="{}"
    )
    assert status == 200


def test_lines_are_taken_where_jobs_are_imported(port: int) -> None:
    status, _ = sent(
        port,
        "POST /v1/jobs/import",
        "Host: localhost",
        "Content-Type: application/x-ndjson",
        "Content-Length: 2",
        body="{}",
    )
    assert status not in (403, 415)


def test_another_machine_is_refused_wherever_the_server_is_bound() -> None:
    async def asked() -> None:
        transport = httpx.ASGITransport(probing(), client=("10.0.0.7", 1))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost"
        ) as client:
            answer = await client.get(READ)
            assert answer.status_code == 403
            assert "only this machine" in answer.json()["detail"]

    asyncio.run(asked())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_a_server_without_authentication_may_be_bound_to_this_machine(
    host: str,
) -> None:
    assert may_bind_openly(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "example.org"])
def test_a_server_without_authentication_may_not_be_bound_elsewhere(host: str) -> None:
    assert not may_bind_openly(host)


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://login.example.org/realms/main", True),
        ("http://127.0.0.1:9000", True),
        ("http://[::1]:9000/", True),
        ("http://login.example.org", False),
        ("ftp://localhost", False),
        ("https://", False),
        ("https://user@example.org", False),
        ("https://example.org/#a", False),
        ("https://[", False),
        (7, False),
    ],
)
def test_secrets_are_sent_by_https_or_to_this_machine(
    url: object, is_safe: bool
) -> None:
    assert is_safe_url(url) is is_safe
