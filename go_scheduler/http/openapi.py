"""The description of the API, by OpenAPI 3.1."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from go_scheduler.http.access.authentication import Allowed
from go_scheduler.http.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastapi import FastAPI
    from fastapi.routing import APIRoute

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


def describe(app: FastAPI, routes: Sequence[APIRoute]) -> None:
    """Add the scopes and problems of each route to an application's description.

    Args:
        app: The application.
        routes: Its routes.
    """
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = generate()
            _add_scopes(described, routes)
            _add_problems(described)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def operation_id(route: APIRoute) -> str:
    """The name of a route's function, for clients to call their method by."""
    return route.name


def _add_scopes(described: dict[str, Any], routes: Sequence[APIRoute]) -> None:
    """Name the scopes of each route, which older versions of FastAPI leave out."""
    for route in routes:
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
