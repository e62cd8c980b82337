"""Static files: browsers keep them until they change."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette import staticfiles

from go_scheduler.dashboard.rendering import STATIC

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

_FOREVER = "public, max-age=31536000, immutable"
_ASK = "public, no-cache"


class StaticFiles(staticfiles.StaticFiles):
    """The files of the package, with an ETag."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One of them; one that is asked for by its version never changes."""
        response = await super().get_response(path, scope)
        is_versioned = "v" in parse_qs(scope["query_string"].decode("latin-1"))
        response.headers["Cache-Control"] = _FOREVER if is_versioned else _ASK
        return response
