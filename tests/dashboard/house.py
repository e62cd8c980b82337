"""A dashboard that has a page and a button of the tests' own, and what calls it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response, StreamingResponse

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.dashboard.request import change, page
from go_scheduler.http.access.caller import SCOPES, Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx
    from fastapi import Request

    from go_scheduler.dashboard.request import PageRequest
    from tests.http.serving import Calling

SECRET = "what the page has"
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "x" * 10_000,
)
"""What others may have written."""

OWN = {"Sec-Fetch-Site": "same-origin"}
ANN = Caller(subject="ann", scopes=frozenset(SCOPES))


def probing(client: Client | None = None, **options: Any) -> Starlette:
    """A dashboard with a page, a button, and what fails."""
    app = create_dashboard(client or Client(MemoryStore()), **options)
    app.router.routes += [
        page("/probe", _probe),
        page("/probe/failing", _failing),
        page("/probe/broken", _broken),
        page("/probe/hostile", _hostile),
        page("/probe/buttons", _buttons),
        page("/probe/admin", _probe, needs=("admin",)),
        change("/probe/press", _press, needs="runs:write"),
    ]
    return app


def as_ann(request: Request) -> Caller:
    """An ``authorize`` that knows everybody as one who may do everything."""
    return ANN


def token_in(answer: httpx.Response) -> str:
    """The token of a page."""
    [found] = re.findall(r'"X-CSRF-Token": "(\w+)"', answer.text)
    return str(found)


def press(browser: Calling, **options: Any) -> httpx.Response:
    """Load a page and press its button, as a browser does."""
    data = {"csrf": token_in(browser.get("/")), "note": "mine"}
    return browser.post("/probe/press", **{"headers": OWN, "data": data, **options})


async def _probe(visit: PageRequest) -> Response:
    return Response(f"{SECRET}, {visit.caller.subject}, {visit.may('runs:write')}")


async def _failing(visit: PageRequest) -> Response:
    raise ZeroDivisionError("<script>what only the log has</script>")


async def _broken(visit: PageRequest) -> Response:
    async def parts() -> AsyncIterator[str]:
        yield "begun"
        raise ZeroDivisionError

    return StreamingResponse(parts())


async def _hostile(visit: PageRequest) -> Response:
    problem = {"title": visit.query["text"], "detail": ""}
    return visit.show("error.html", problem=problem, page="")


async def _buttons(visit: PageRequest) -> Response:
    template = visit.here.templates.from_string(
        """{% extends "base.html" %}{% import "forms.html" as forms %}
        {% block title %}Buttons{% endblock %}
        {% block content %}
        <h1>Buttons</h1>
        {% call forms.change(visit, "/probe/press", "Press", True) %}
        <input type="hidden" name="note" value="{{ note }}">
        {% endcall %}
        <button hx-post="{{ visit.link("/probe/press") }}" hx-vals='{"note": "htmx"}'
            hx-target="#said">Press by htmx</button>
        <p id="said" role="status"></p>
        {% endblock %}"""
    )
    note = "".join(HOSTILE[:2])
    return HTMLResponse(template.render(visit=visit, path="", note=note))


async def _press(visit: PageRequest) -> Response:
    if visit.form.get("note") == "elsewhere":
        return visit.go("/", of=visit.form["note"], nothing=None)
    return Response(f"pressed: {visit.form['note']}")
