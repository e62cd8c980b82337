"""The commands `login` and `logout`, with a provider that is one."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from go_scheduler.cli.commands import server
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.stores import MemoryStore
from tests.cli.shell import Shell
from tests.http.access.provider import AUDIENCE, CLIENT, Provider, provider
from tests.http.serving import get, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def issuing() -> Iterator[Provider]:
    with provider() as found:
        yield found


@pytest.fixture
def far(issuing: Provider, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A shell on a server that takes the provider's tokens."""
    issuer = OidcIssuer(issuer=issuing.issuer, audience=AUDIENCE, client_id=CLIENT)
    app = create_app(Client(MemoryStore()), access=BearerAccess(issuer=issuer))
    with served(app) as (host, port):
        yield Shell(f"http://{host}:{port}", capsys, store="")


def test_whoever_signs_in_by_a_device_is_let_in_until_they_sign_out(
    far: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def read(text: str) -> None:
        said.append(text)
        if text.startswith("open "):
            assert get(text.split()[1]).status_code == 200

    monkeypatch.setattr(server, "line", read)
    far.refusal("list", code=4)
    far("login", "--scope", "openid jobs:read")
    assert said[-1] == f"signed in to {far.url}"
    assert "DEFINITION" in far("list")
    monkeypatch.setenv("GO_SCHEDULER_SERVER", far.url)
    far("logout", where=False)
    assert said[-1] == f"signed out of {far.url}"
    far.refusal("list", code=4)
    far("logout", code=1)
    assert said[-1] == f"nobody was signed in to {far.url}"


def test_whoever_signs_in_by_a_browser_is_let_in(
    far: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    browsing: list[Future[httpx.Response]] = []
    with ThreadPoolExecutor() as browser:

        def browse(url: str) -> None:
            browsing.append(browser.submit(get, url, follow_redirects=True))

        monkeypatch.setattr("webbrowser.open", browse)
        assert far("login", "--browser", "--scope", "openid jobs:read").startswith(
            "signed in to "
        )
    assert "Close this page" in browsing[0].result().text
    assert "DEFINITION" in far("list")


def test_what_keeps_from_signing_in_is_told(shell: Shell) -> None:
    assert "say where: --server URL" in shell.refusal("login", where=False)
    shell.refusal("login", "--server", "http://127.0.0.1:1", where=False, code=4)
