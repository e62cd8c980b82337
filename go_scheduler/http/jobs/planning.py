"""What is to be written for a job (pure): one row of its type, or a definition too."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

from go_scheduler.checks import check_at_least, check_name
from go_scheduler.client.job import Job
from go_scheduler.clock import ZERO
from go_scheduler.http.bodies.body import of_field
from go_scheduler.http.jobs.spreading import Spread, drawn
from go_scheduler.http.problems import invalid
from go_scheduler.models import TaskDefinition
from go_scheduler.stores.messages import Addition
from go_scheduler.triggers import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.bodies.jobs import JobBody
    from go_scheduler.http.jobs.known_types import KnownType
    from go_scheduler.json import JSON

_FIELDS = (
    "queue",
    "priority",
    "timeout",
    "expire_after",
    "start_timeout",
    "heartbeat_timeout",
    "lock",
    "metadata",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What is to be written for a job.

    Attributes:
        type: Its type's name.
        job: When it is to run, and with what.
        own: Its own definition; None: that of its type.
        owner: In whose set that is to be; None: in none.
        elsewhere: The definitions in which there may be one with its key as well: with
            settings of its own, or without.
    """

    type: str
    job: Job
    own: TaskDefinition | None = None
    owner: str | None = None
    elsewhere: Sequence[UUID] = ()


def planned(
    body: JobBody,
    of: KnownType,
    caller: Caller,
    *,
    key: str | None,
    number: int,
    spread: Spread,
) -> Planned:
    """What is to be written for a job.

    Args:
        body: As it was sent.
        of: What is known of its type.
        caller: Who sent it.
        key: Its key; None: it has none.
        number: The how-maniest of those that are spread it is.
        spread: When it is to run if it does not say.

    Raises:
        Problem: It cannot be, or its caller may not.
    """
    base = of.base(caller)
    if body.owner is not None:
        with of_field("owner"):
            check_name("owner", body.owner)
    stored = of.checked(body.payload)
    settings = body.settings(base)
    new = uuid4()
    at, delay = _when(body, spread, number, key or str(new))
    # What the server runs itself everybody may use, by a definition of their own.
    is_own = bool(settings) or not caller.sees(base)
    # The server's own types are made into what is stored by whoever enqueues them.
    payload = body.payload if of.task is not None and not is_own else stored or None
    job = Job(id=new, payload=payload, at=at, delay=delay, key=key)
    _check(job)
    if not is_own:
        elsewhere = _own_ids(body, caller, key)
        return Planned(type=body.type, job=job, elsewhere=elsewhere)
    owner = caller.owner_for(body.owner)
    id = _own_id(owner, body.type, key)
    # Its id has to be remembered by nobody when it is gone, unless it is in a set.
    own = _own(base, settings, id=id, named=owner is not None)
    caller.check_queue(own.queue)
    elsewhere = (base.id,) if key is not None and caller.sees(base) else ()
    return Planned(type=body.type, job=job, own=own, owner=owner, elsewhere=elsewhere)


def _check(job: Job) -> None:
    """Refuse what no store takes, before any of its batch is written."""
    with of_field("", ("at", "delay", "key", "payload")):
        Addition(
            at=job.at,
            delay=job.delay or ZERO,
            payload=cast("Mapping[str, JSON] | None", job.payload),
            key=job.key,
        )


def _own_id(owner: str | None, type: str, key: str | None) -> UUID:
    if key is None:
        return uuid4()
    return TaskDefinition.id_for(f"job {json.dumps([owner, type, key])}")


def _own_ids(body: JobBody, caller: Caller, key: str | None) -> Sequence[UUID]:
    """Those that a job of this caller's with the key has if it has its own settings."""
    if key is None:
        return ()
    if body.owner is not None or caller.owners is None:
        return (_own_id(body.owner, body.type, key),)
    return [_own_id(each, body.type, key) for each in sorted(caller.owners)]


def _own(
    base: TaskDefinition, settings: dict[str, Any], *, id: UUID, named: bool
) -> TaskDefinition:
    with of_field("", _FIELDS):
        own = replace(
            base,
            id=id,
            trigger=OnDemandTrigger(lasting=False),
            **({"metadata": {}} | settings),
        )
        # Only a new one is put: what is there under its key stays as it is.
        return replace(own, named=named, revision=0)


def _when(
    body: JobBody, spread: Spread, number: int, seed: str
) -> tuple[datetime | None, timedelta | None]:
    """When it is to run: at a time, or after a delay."""
    if body.at is not None and body.delay is not None:
        raise invalid("delay", "say when by at or by delay, and not by both")
    for name, least in (("jitter", body.jitter), ("delay", body.delay)):
        if least is not None:
            with of_field(name):
                check_at_least(name, least, ZERO)
    later = drawn(seed, spread.jitter if body.jitter is None else body.jitter)
    try:
        if body.at is not None:
            return body.at + later, None
        if body.delay is not None:
            return None, body.delay + later
        later += spread.offset(number)
        return (None, later) if spread.start is None else (spread.start + later, None)
    except OverflowError:
        raise invalid("at", "it would run in a year that no calendar has") from None
