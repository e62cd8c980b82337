"""The doors: how somebody may sign in here, and who it then is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from go_scheduler.dashboard.signing_in.code_flow import CodeFlow
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.keys import kept_of
from go_scheduler.http.access.rates import Rate, Rates, network_of
from go_scheduler.http.access.refusals import too_many
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from go_scheduler.clock import Clock
    from go_scheduler.dashboard.signing_in.sign_in import SignIn
    from go_scheduler.http.access.bearer import BearerAccess

_RATE = Rate(per_second=5, burst=20)


class Doors:
    """Let people in who show an API key, or sign in at the issuer.

    Args:
        bearer: Knows both.
        sign_in: How people sign in.
        clock: Measures how often they try.
    """

    def __init__(self, bearer: BearerAccess, sign_in: SignIn, clock: Clock) -> None:
        self._bearer = bearer
        self._rates = Rates(_RATE, clock)
        self.takes_keys = bool(bearer.keys)
        issuer, tokens = bearer.issuer, bearer.tokens
        client_id = sign_in.client_id or (issuer and issuer.client_id)
        self.code_flow: CodeFlow | None = None
        if issuer is not None and tokens is not None and client_id:
            self.code_flow = CodeFlow(
                issuer, tokens, sign_in=sign_in, client_id=client_id
            )

    def count(self, request: Request) -> None:
        """Refuse who tries too often.

        Raises:
            Problem: 429.
        """
        address = network_of(request.client.host) if request.client else ""
        if wait := self._rates.take(address):
            raise too_many("too many have tried to sign in: try again later", wait)

    def known_by_key(self, key: str) -> tuple[Caller, Mapping[str, Any]]:
        """Whose key it is, and what a session has of it: not the key itself.

        Raises:
            Problem: 401, there is no such key.
        """
        kept = kept_of(key)
        return self._bearer.keys.caller_of_kept(kept), {"key": kept}

    def known_at_issuer(self, caller: Caller) -> Mapping[str, Any]:
        """What a session has of somebody who has signed in at the issuer."""
        return {
            "issuer": self._issuer,
            "subject": caller.subject,
            "scopes": sorted(caller.scopes),
            "queues": None if caller.queues is None else sorted(caller.queues),
            "owners": None if caller.owners is None else sorted(caller.owners),
        }

    def caller_of(self, signed_in: Mapping[str, Any] | None) -> Caller:
        """Who has signed in.

        Args:
            signed_in: What a session has of it.

        Raises:
            Problem: 401, nobody has, or may come in any more.
        """
        if signed_in is None:
            raise signed_out()
        if "key" in signed_in:
            try:
                return self._bearer.keys.caller_of_kept(signed_in["key"])
            except Problem:
                raise signed_out() from None
        if signed_in["issuer"] != self._issuer:
            raise signed_out()
        queues, owners = signed_in["queues"], signed_in["owners"]
        return Caller(
            subject=signed_in["subject"],
            scopes=frozenset(signed_in["scopes"]),
            queues=None if queues is None else frozenset(queues),
            owners=None if owners is None else frozenset(owners),
        )

    @property
    def _issuer(self) -> list[str] | None:
        issuer = self._bearer.issuer
        return None if issuer is None else [issuer.issuer, issuer.audience]


SIGNED_OUT = "signed-out"


def signed_out() -> Problem:
    """401 for somebody who has to sign in first."""
    return Problem(401, SIGNED_OUT, "Not signed in", "sign in to see this")
