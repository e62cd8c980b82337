"""How people sign in to the dashboard, as the configuration has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from go_scheduler.checks import check_at_least, check_name

LASTS = timedelta(hours=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """How people sign in to the dashboard.

    Args:
        client_id: As what the issuer knows the dashboard; None: its ``client_id``, as
            what the command line signs people in.
        client_secret: By what the issuer knows that it is; None: it has none (a public
            client).
        scope: What the issuer is asked for.
        lasts: After so long they have to sign in again.

    Raises:
        ConfigurationError: One of these is no such thing.
    """

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str = "openid"
    lasts: timedelta = LASTS

    def __post_init__(self) -> None:
        if self.client_id is not None:
            check_name("client_id", self.client_id)
        check_at_least("lasts", self.lasts, timedelta(minutes=1))
