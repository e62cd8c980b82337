"""Over HTTP by the tokens of a provider, beside keys."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import httpx
import pytest

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.events import NoticeGiven, hears
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.keys import ApiKey, new_key
from go_scheduler.http.access.login import (
    LoginProvider,
    Logins,
    ProviderAwayError,
    TokenFile,
)
from tests.http.access.house import PATHS, probing
from tests.http.access.provider import AUDIENCE, CLIENT, provider
from tests.http.certificates import certificate

if TYPE_CHECKING:
    from pathlib import Path

    from go_scheduler.testing import ManualClock
    from tests.http.access.provider import Provider

READ, RUN, WORK = PATHS["jobs:read"], PATHS["runs:write"], PATHS["workers"]
NEW = new_key()
KEY = ApiKey(subject="worker", hash=NEW.kept, scopes=["workers"])


def access(oidc: Provider) -> BearerAccess:
    issuer = OidcIssuer(
        issuer=oidc.issuer,
        audience=AUDIENCE,
        roles_claim="realm_access.roles",
        roles={"operator": ["runs:write"]},
        queues_claim="queues",
    )
    tls = ssl.create_default_context()
    return BearerAccess(keys=[KEY], issuer=issuer, tls=tls)


async def statuses(
    client: Client, known: BearerAccess, token: str, *paths: str
) -> list[int]:
    transport = httpx.ASGITransport(probing(client, access=known))
    async with httpx.AsyncClient(
        transport=transport,
        base_url="https://tasks.example.org",
        headers={"Authorization": f"Bearer {token}"},
    ) as caller:
        return [(await caller.get(each)).status_code for each in paths]


def test_people_come_with_tokens_and_workers_with_keys(oidc: Provider) -> None:
    person = oidc.token(realm_access={"roles": ["operator"]}, queues=["mail"])
    paths = (READ, RUN, WORK, f"{READ}?queue=mail", f"{READ}?queue=sms")

    async def asked() -> None:
        client, known = Client(MemoryStore()), access(oidc)
        found = await statuses(client, known, person, *paths)
        assert found == [200, 200, 403, 200, 403]
        assert await statuses(client, known, NEW.key, *paths[:3]) == [403, 403, 200]
        other = oidc.token(iss="https://evil.example")
        assert await statuses(client, known, other, READ) == [401]

    asyncio.run(asked())


def test_keys_are_taken_while_the_provider_is_away_and_listeners_hear_of_it(
    oidc: Provider, clock: ManualClock
) -> None:
    heard: list[str] = []

    @hears(NoticeGiven)
    def hear(event: NoticeGiven) -> None:
        heard.append(event.text)

    client = Scheduler(None, MemoryStore(clock), clock=clock, listeners=[hear])
    oidc.answers["/jwks"] = 500

    async def asked() -> None:
        known = access(oidc)
        assert await statuses(client, known, oidc.token(), READ) == [503]
        assert await statuses(client, known, NEW.key, WORK) == [200]

    asyncio.run(asked())
    assert any("cannot be fetched" in each for each in heard)


@pytest.mark.slow
def test_an_issuer_is_believed_if_its_certificate_is_trusted(
    tmp_path: Path, clock: ManualClock
) -> None:
    paths = certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=str(paths[0]))
    with provider(paths) as oidc:
        assert oidc.issuer.startswith("https://")
        issuer = OidcIssuer(issuer=oidc.issuer, audience=AUDIENCE)

        async def asked() -> None:
            client, token = Client(MemoryStore()), oidc.token()
            for tls, status in ((None, 503), (trusted, 200)):
                known = BearerAccess(issuer=issuer, tls=tls)
                assert await statuses(client, known, token, READ) == [status]

        asyncio.run(asked())
        file = TokenFile(tmp_path / "tokens.json")
        known = {"issuer": oidc.issuer, "client_id": CLIENT}
        shown: list[object] = []
        with pytest.raises(ProviderAwayError, match="CERTIFICATE_VERIFY_FAILED"):
            Logins(file, clock=clock).login_by_device(
                "https://tasks.example.org", shown.append, **known
            )
        assert shown == []
        found = LoginProvider.discover(**known, scope="openid", tls=trusted)
        assert found.ask("device_authorization", scope="openid")["device_code"]
