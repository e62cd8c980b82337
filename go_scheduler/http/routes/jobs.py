"""Jobs: what is to be done by a type, now or later."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.guard import allowed
from go_scheduler.http.bodies.body import Name
from go_scheduler.http.bodies.jobs import JobBody, SubmittedAnswer
from go_scheduler.http.context import Here
from go_scheduler.http.jobs.planning import planned
from go_scheduler.http.jobs.spreading import Spread
from go_scheduler.http.jobs.submitting import Submitting
from go_scheduler.http.paths import path_from_outside
from go_scheduler.http.problems import Problem, invalid

router = APIRouter(prefix="/v1", tags=["jobs"])

_READ_AT = "a job that was submitted is read at /v1/instances/{instance_id}"


@router.post(
    "/jobs",
    status_code=201,
    responses={
        200: {
            "model": SubmittedAnswer,
            "description": "There is a job with this key already.",
        }
    },
)
async def submit(
    here: Here,
    caller: Annotated[Caller, allowed("jobs:write")],
    body: JobBody,
    request: Request,
    response: Response,
    idempotency_key: Annotated[
        Name | None, Header(description="The `key`, if the body has none.")
    ] = None,
) -> SubmittedAnswer:
    """Submit a job, once by its key."""
    if body.key is not None and idempotency_key not in (None, body.key):
        raise invalid("key", "it is another one than the header Idempotency-Key has")
    known = await here.job_types.find(body.type)
    job = planned(
        body,
        known,
        caller,
        key=idempotency_key if body.key is None else body.key,
        number=1,
        spread=Spread(jitter=here.jobs.jitter),
    )
    submitting = Submitting(here.client, here.job_types, caller)
    [found] = await submitting.write([job])
    if isinstance(found, Problem):
        raise found
    response.headers["Location"] = path_from_outside(
        request, f"/v1/instances/{found.id}"
    )
    response.status_code = 201 if found.id == job.job.id else 200
    return SubmittedAnswer(
        instance_id=found.id,
        definition_id=found.definition.id,
        state=found.state,
    )


@router.get("/jobs", include_in_schema=False)
async def list_jobs() -> None:
    """Tell whoever wants to list jobs where they are.

    Raises:
        Problem: 405.
    """
    detail = f"this path takes POST alone; {_READ_AT}"
    raise Problem(
        405, "method", "Method Not Allowed", detail, headers={"Allow": "POST"}
    )


@router.api_route(
    "/jobs/{id}", methods=["DELETE", "GET", "PATCH", "PUT"], include_in_schema=False
)
async def get_job() -> None:
    """Tell whoever looks for a job where it is.

    Raises:
        Problem: 404.
    """
    detail = f"there is nothing under this path; {_READ_AT}"
    raise Problem(404, "no-path", "Not Found", detail)
