"""The section on the dashboard: whether there is one, and how people sign in."""

from __future__ import annotations

from datetime import timedelta

from pydantic import SecretStr

from go_scheduler.http.configuration.section import Duration, Section


class DashboardSection(Section):
    """The dashboard that a server has; see ``create_dashboard`` and ``SignIn``.

    Attributes:
        enabled: Whether it has one.
        allow_changes: Whether its pages change anything, for those who may; None: where
            there is authentication.
        origin: Where browsers have it; None: the host that they ask for.
        client_id: As what the issuer knows it; None: as the command line.
        client_secret: By what the issuer knows that it is.
        scope: What the issuer is asked for.
        session: After so long people have to sign in again.
    """

    enabled: bool = True
    allow_changes: bool | None = None
    origin: str | None = None
    client_id: str | None = None
    client_secret: SecretStr | None = None
    scope: str = "openid"
    session: Duration = timedelta(hours=8)
