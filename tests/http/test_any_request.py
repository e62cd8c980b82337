"""No request is an error of the server, and answers match the description.

``GO_SCHEDULER_HTTP_CALLS=10000 pytest tests/http/test_any_request.py`` sends so many.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.testing.builders import definition, pending
from tests.http.serving import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

FEW = 300
CALLS = int(os.environ.get("GO_SCHEDULER_HTTP_CALLS", FEW))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> bytes:
    """The body of an import."""
    return str(value).encode(errors="surrogatepass")


def cases(operation: Any, ids: dict[str, str]) -> SearchStrategy[Any]:
    """Valid and invalid requests for an operation, with known and unknown ids."""
    known: list[dict[str, str] | None] = [None]
    if "{id}" in operation.path:
        known.append({"id": ids[operation.path.split("/")[2]]})
    return st.one_of(
        [
            operation.as_strategy(mode, path_parameters=given)
            for mode in GenerationMode
            for given in known
        ]
    )


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("default")
def test_no_request_is_an_error_of_the_servers() -> None:
    store = MemoryStore()
    app = create_app(Client(store))
    schema = schemathesis.openapi.from_dict(app.openapi())
    operations: list[Any] = [each.ok() for each in schema.get_all_operations()]  # type: ignore[union-attr]
    seen: Counter[int] = Counter()
    failed: list[Exception] = []
    with served(app) as (host, port), requests.Session() as session:

        def send(operation: Any) -> None:
            ids = {
                "definitions": str(
                    store.put_definitions([definition()]).definitions[0].id
                ),
                "instances": str(pending(store).id),
            }

            @given(case=cases(operation, ids))
            @hypothesis.settings(
                max_examples=max(1, CALLS // len(operations)),
                suppress_health_check=[*HealthCheck],
                database=None,
                derandomize=CALLS == FEW,
                print_blob=False,
            )
            def call(case: Any) -> None:
                answer = case.call(
                    base_url=f"http://{host}:{port}",
                    session=session,
                    timeout=FAILED_AFTER,
                )
                seen[answer.status_code] += 1
                case.validate_response(answer, checks=CHECKS)

            try:
                call()
            except Exception as error:
                failed.append(error)

        # For some operations there are few different requests.
        while seen.total() < CALLS and not failed:
            for operation in operations:
                send(operation)
    if failed:
        raise ExceptionGroup("not as it is described", failed)
    assert seen[200] > 0
    assert 500 not in seen
