"""The metadata about the issuer, for clients that log in (RFC 9728)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel

from go_scheduler.http.access.authentication import METADATA
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.http.context import Here
from go_scheduler.http.problems import Problem

router = APIRouter(tags=["login"])


class ProtectedResource(BaseModel):
    """The issuer of tokens for this server, and the supported scopes."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[str] = sorted(SCOPES)
    bearer_methods_supported: list[str] = ["header"]
    client_id: str | None


@router.get(METADATA)
async def protected_resource(request: Request, here: Here) -> ProtectedResource:
    """The issuer of tokens for this server; this needs no token."""
    access = here.access
    issuer = access.issuer if isinstance(access, BearerAccess) else None
    if issuer is None:
        raise Problem(
            404,
            "no-issuer",
            "Nowhere to sign in",
            "this server has no issuer of tokens: send an API key, or nothing at all",
        )
    return ProtectedResource(
        resource=str(request.base_url).rstrip("/"),
        authorization_servers=[issuer.issuer],
        client_id=issuer.client_id,
    )
