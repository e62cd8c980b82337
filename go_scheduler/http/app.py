"""Creates and describes the FastAPI application, and mounts pages beside its API."""

from __future__ import annotations

import warnings
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from fastapi import FastAPI
from fastapi.dependencies import utils
from fastapi.openapi.utils import get_fields_from_routes
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import RedirectResponse

from go_scheduler.client import Client, check_client
from go_scheduler.clock import Clock, SystemClock
from go_scheduler.http.access.authentication import Allowed, Authentication, OpenAccess
from go_scheduler.http.context import Context, Readiness
from go_scheduler.http.jobs import KnownTypes
from go_scheduler.http.limits import Limited, Limits, Threads
from go_scheduler.http.paths import path_within
from go_scheduler.http.problems import MEDIA_TYPE, Problem, answer_problems
from go_scheduler.http.routes import definitions, system
from go_scheduler.http.routes import jobs as jobs_routes
from go_scheduler.http.routes import types as types_routes
from go_scheduler.http.routes import work as work_routes
from go_scheduler.http.staggering import JobDefaults
from go_scheduler.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from go_scheduler.handlers.registry import HandlerRegistry
    from go_scheduler.http.access.authentication import Access
    from go_scheduler.http.work.long_poll import LongPoll
    from go_scheduler.telemetry.figures import Gathering


# What pages of other sites may send, and read (CORS).
_HEADERS_SENT = ("Authorization", "Content-Type", "If-Match", "If-None-Match")
_HEADERS_READ = ("ETag", "Location", "Retry-After", "WWW-Authenticate")
_ALWAYS = (401, 403, 404, 429, 431, 500, 503)
_WITH_BODY = (400, 408, 413, 415, 422)
_CONFLICTS = {"post", "put", "patch", "delete"}


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str = Field(examples=["trigger.cron"])
    detail: str


class ProblemBody(BaseModel):
    """What went wrong, by RFC 9457."""

    type: str = Field(examples=["urn:go_scheduler:invalid"])
    title: str
    status: int
    detail: str = Field(description="What it is this time, and what can be done.")
    errors: list[FieldProblem] | None = None


class _Application(FastAPI):
    """An application whose description has the scopes and problems of each route."""

    def openapi(self) -> dict[str, Any]:
        """The description."""
        if self.openapi_schema is None:
            described = super().openapi()
            _add_scopes(described)
            _add_problems(described)
            self.openapi_schema = described
        return self.openapi_schema


def _add_scopes(described: dict[str, Any]) -> None:
    """Name the scopes of each route, which older versions of FastAPI leave out."""
    for route in _ROUTES:
        for needed in route.dependant.dependencies:
            if isinstance(needed.call, Allowed):
                security = {needed.call.scheme_name: [*needed.call.scopes]}
                for method in route.methods or ():
                    operation = described["paths"][route.path_format][method.lower()]
                    operation["security"] = [security]


def _add_problems(described: dict[str, Any]) -> None:
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    for each in ("HTTPValidationError", "ValidationError"):
        schemas.pop(each, None)
    made = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(made.pop("$defs"))
    schemas["ProblemBody"] = made
    for path in described["paths"].values():
        for method, operation in path.items():
            responses = operation["responses"]
            for status in _problems_of(method, operation):
                responses[str(status)] = _response(status)


def _problems_of(method: str, operation: dict[str, Any]) -> Iterator[int]:
    """The statuses of the problems that an operation may answer."""
    yield from _ALWAYS
    if "requestBody" in operation:
        yield from _WITH_BODY
    if "parameters" in operation:
        yield 422
    if method in _CONFLICTS:
        yield 409
    if any(each["name"] == "if-match" for each in operation.get("parameters", ())):
        yield 412


def _response(status: int) -> dict[str, Any]:
    title = HTTPStatus(status).phrase
    example = Problem(status, "...", title, "What was expected, and what was found.")
    return {
        "description": title,
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/ProblemBody"},
                "example": example.body,
            }
        },
    }


class Pages(Protocol):
    """An application that is served beside the API."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        ...

    def stop(self) -> None:
        """End streams that would stay open: the server is about to stop."""
        ...


class MountedPages:
    """Serves pages under a path, and the API elsewhere; ``/`` redirects to the pages.

    Args:
        api: Answers all other requests.
        pages: Answers the requests below the path.
        path: For example ``/dashboard``; empty: the pages answer all requests.
    """

    def __init__(self, api: ASGIApp, pages: ASGIApp, path: str) -> None:
        self._api = api
        self._pages = pages
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        root, path = scope.get("root_path", ""), path_within(scope)
        if path.startswith(f"{self._path}/"):
            below = {**scope, "root_path": root + self._path}
            await self._pages(below, receive, send)
        elif path in ("/", self._path) and scope["method"] in ("GET", "HEAD"):
            answer = RedirectResponse(f"{root}{self._path}/")
            await answer(scope, receive, send)
        else:
            await self._api(scope, receive, send)


# Routes are tried in this order: the most frequent stand first.
_ROUTERS = (
    work_routes.router,
    jobs_routes.router,
    jobs_routes.instances,
    definitions.router,
    types_routes.router,
    system.login,
    system.router,
)
_ROUTES = [
    route
    for each in _ROUTERS
    for route in each.routes
    if isinstance(route, APIRoute) and route.include_in_schema
]
"""The routes that are described."""


def create_app(
    scheduler: Client,
    *,
    access: Access | None = None,
    work: LongPoll | None = None,
    types: HandlerRegistry | None = None,
    limits: Limits | None = None,
    jobs: JobDefaults | None = None,
    metrics: Gathering | None = None,
    clock: Clock | None = None,
) -> FastAPI:
    """Create an application that offers a scheduler over HTTP.

    It neither starts nor stops the scheduler.

    ```python
    with Scheduler(handlers, store) as scheduler:
        uvicorn.run(create_app(scheduler))
    ```

    Args:
        scheduler: The scheduler; a ``Client`` is enough if this process runs nothing.
        access: Authenticates callers; None: everybody on this machine may do
            everything, and nobody else anything.
        work: Hands work to workers elsewhere; None: none is handed out.
        types: The types of jobs that the server runs itself; None: it runs none.
        limits: The limits of a request; None: ``Limits()``.
        jobs: The defaults of jobs; None: ``JobDefaults()``.
        metrics: A listener of the scheduler, such as a ``Telemetry``. ``/metrics``
            shows what it has counted; None: only the counts of the store.
        clock: Measures time; None: the system's.

    Raises:
        ConfigurationError: ``scheduler`` is neither a scheduler nor a client.
    """
    check_client("scheduler", scheduler)
    limits, clock = limits or Limits(), clock or SystemClock()
    app = _Application(
        title="go_scheduler",
        version=__version__,
        lifespan=_lifespan,
        openapi_url=None,
        # The name of its function, for clients to call their method by.
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,
        redoc_url=None,
    )
    context = app.state.context = Context(
        client=scheduler,
        access=access or OpenAccess(),
        clock=clock,
        limits=limits,
        readiness=Readiness(scheduler, clock),
        threads=Threads(clock, threads=limits.threads, calls=limits.calls),
        job_types=KnownTypes(scheduler, types, clock),
        jobs=jobs or JobDefaults(),
        work=work,
        metrics=metrics,
    )
    # The middleware that is added last runs first.
    app.add_middleware(Authentication, context=context)
    answer_problems(app)
    if context.access.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(context.access.origins),
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=_HEADERS_SENT,
            expose_headers=_HEADERS_READ,
        )
    app.add_middleware(Limited, limits=limits, threads=context.threads)
    for each in _ROUTERS:
        app.include_router(each)
    _make_routes(app)
    return app


def _make_routes(app: FastAPI) -> None:
    """Build the routes now; FastAPI would build them at the first request.

    That request would wait. Two applications on threads of one process might also
    disturb each other while pydantic builds their types.
    """
    with warnings.catch_warnings():
        # Older versions of FastAPI build a type for each field. Newer versions of
        # pydantic then warn, wrongly, that its alias has no effect.
        warnings.filterwarnings("ignore", "The 'alias' attribute", UserWarning)
        get_fields_from_routes(app.routes)
        make_fields = getattr(utils, "get_cached_model_fields", lambda _: None)
        bodies = chain.from_iterable(each.dependant.body_params for each in _ROUTES)
        for kind in (each.field_info.annotation for each in bodies):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                make_fields(kind)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: Context = app.state.context
    yield
    if context.work is not None:
        await context.work.stop()
    # Calls that still wait for the store are abandoned.
    context.threads.shutdown(wait=False)
