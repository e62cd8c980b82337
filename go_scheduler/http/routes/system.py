"""Routes of login metadata, health, metrics, counts, previews and explanations."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import CollectorRegistry
from pydantic import BaseModel

from go_scheduler.client.store_access import on_thread
from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.http.access.authentication import (
    METADATA,
    Admin,
    BearerAccess,
    JobReader,
    RunReader,
)
from go_scheduler.http.access.caller import (
    SCOPES,
    check_unrestricted,
    is_restricted,
    seen_definition,
    seen_instance,
    seen_why,
)
from go_scheduler.http.bodies import (
    HealthAnswer,
    NodeAnswer,
    NodesAnswer,
    PreviewAnswer,
    PreviewBody,
    StatsAnswer,
    WhyAnswer,
    WhyOfQuery,
    trigger_of,
)
from go_scheduler.http.context import Context, Here
from go_scheduler.http.problems import RETRY_AFTER, Problem
from go_scheduler.models.counts import BOUNDS_IN_SECONDS
from go_scheduler.scheduler import Scheduler
from go_scheduler.telemetry import figures
from go_scheduler.telemetry.figures import COUNTED, PRESENT, Figure, Gathered, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from go_scheduler.models import Backlog, Counted, Counts, Histogram, NodeInfo, State


_BUCKETS = {bound: f"{bound:g}" for bound in figures.BUCKETS}


def of_store(
    *,
    instances: Mapping[State, Counted],
    backlog: Sequence[Backlog],
    nodes: Sequence[NodeInfo],
    counts_nodes: bool,
    workers: int | None,
    now: datetime,
) -> Iterator[tuple[Figure, Iterable[Reading]]]:
    """The metrics of a store.

    Args:
        instances: The number of instances in each state.
        backlog: The due instances that nobody has claimed.
        nodes: The nodes that the store knows.
        counts_nodes: Whether the number of nodes is shown, not only the queues that
            they serve.
        workers: How many workers wait here; None: this server hands out no work.
        now: The store's time.
    """
    taking = [each for each in nodes if each.takes_on]
    ages = [max(0.0, (now - each.oldest).total_seconds()) for each in backlog]
    served = [sum(node.serves(it.queue) for node in taking) for it in backlog]
    queues = [(each.queue,) for each in backlog]
    counts = [((state.value,), each.count) for state, each in instances.items()]
    yield figures.INSTANCES, counts
    yield figures.BACKLOG, [((each.queue,), each.due.count) for each in backlog]
    yield figures.BACKLOG_AGE, zip(queues, ages, strict=True)
    yield figures.SERVING, zip(queues, served, strict=True)
    if counts_nodes:
        yield figures.NODES, [((), sum(each.alive for each in nodes))]
    if workers is not None:
        yield figures.WAITING_WORKERS, [((), workers)]


def written(
    stored: Iterable[tuple[Figure, Iterable[Reading]]], gathered: Gathered | None
) -> str:
    """All metrics, in the text format 0.0.4.

    Args:
        stored: The metrics of the store.
        gathered: The counts of this process's nodes; None: there are none.
    """
    metrics = [_family(GaugeMetricFamily, *each) for each in stored]
    if gathered is not None:
        metrics += _of_nodes(gathered)
    return generate_latest(_Registry(metrics)).decode()


class _Registry(CollectorRegistry):
    """A registry of metrics that have been read already."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        super().__init__()
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """All metrics."""
        return self._metrics


def _of_nodes(found: Gathered) -> Iterator[Metric]:
    for figure, read in COUNTED.items():
        yield _family(CounterMetricFamily, figure, read(found))
    for figure, read in PRESENT.items():
        yield _family(GaugeMetricFamily, figure, read(found))
    yield _histogram(figures.LATENESS, found, lambda it: (it.lateness, it.late))
    yield _histogram(figures.DURATION, found, lambda it: (it.durations, it.took))


def _family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    figure: Figure,
    readings: Iterable[Reading],
) -> Metric:
    family = kind(figure.in_prometheus, figure.text, labels=figure.labels)
    for labels, value in readings:
        family.add_metric(labels, value)
    return family


def _histogram(
    figure: Figure,
    found: Gathered,
    of: Callable[[Counts], tuple[Histogram, timedelta]],
) -> Metric:
    family = HistogramMetricFamily(
        figure.in_prometheus, figure.text, labels=figure.labels
    )
    for labels, counts in found.counts.items():
        histogram, total = of(counts)
        family.add_metric(labels, _buckets(histogram), total.total_seconds())
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """The cumulative count up to each bound."""
    cumulated = accumulate(histogram.counts)
    below = [
        (_BUCKETS[bound], float(count))
        for bound, count in zip(BOUNDS_IN_SECONDS, cumulated, strict=False)
        if bound in _BUCKETS
    ]
    return [*below, ("+Inf", float(histogram.total))]


login = APIRouter(tags=["login"])
router = APIRouter(tags=["system"])


class ProtectedResource(BaseModel):
    """The issuer of tokens for this server, and the supported scopes."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[str] = sorted(SCOPES)
    bearer_methods_supported: list[str] = ["header"]
    client_id: str | None


@login.get(METADATA)
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


@router.get("/healthz")
async def healthz() -> HealthAnswer:
    """Whether the process runs; nothing else is checked."""
    return HealthAnswer()


@router.get("/readyz")
async def readyz(here: Here) -> HealthAnswer:
    """Whether the store answers, and the scheduler of this process is healthy."""
    await here.readiness.check()
    if not _is_well(here):
        raise Problem(
            503,
            "not-ready",
            "The server is not ready",
            "this server's scheduler is stopping, or not well",
            headers=RETRY_AFTER,
        )
    return HealthAnswer()


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(here: Here, caller: Admin) -> str:
    """The metrics for Prometheus; a restricted caller sees its queues and owners."""
    client, restricted = here.client, is_restricted(caller)
    counted = await client.acounts_up_to(queues=caller.queues, owners=caller.owners)
    # A backlog counts all owners of a queue together.
    hides = caller.owners is not None
    backlog = [] if hides else await client.abacklog(queues=caller.queues)
    stored = of_store(
        instances=counted,
        backlog=backlog,
        nodes=await client.anodes(),
        counts_nodes=not restricted,
        workers=None if here.work is None or restricted else here.work.waiting_workers,
        now=await on_thread(client._ready().now),
    )
    shown = None if here.metrics is None or restricted else here.metrics.gathered()
    return written(stored, shown)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, caller: JobReader) -> dict[str, Any]:
    """The description of the API, by OpenAPI 3.1."""
    described: dict[str, Any] = request.app.openapi()
    return described


@router.get("/v1/stats")
async def stats(here: Here, caller: RunReader) -> StatsAnswer:
    """How many instances are in each state, and how many nodes there are.

    For a restricted caller, only its instances are counted.
    """
    client, restricted = here.client, is_restricted(caller)
    counts = await client.acounts_up_to(queues=caller.queues, owners=caller.owners)
    nodes = None if restricted else sum(each.alive for each in await client.anodes())
    workers = None if here.work is None or restricted else here.work.waiting_workers
    return StatsAnswer.counted(counts, nodes=nodes, workers=workers)


@router.get("/v1/nodes")
async def nodes(here: Here, caller: Admin) -> NodesAnswer:
    """The nodes that the store has seen within the last hour.

    A caller who is restricted to queues or owners may not see them.
    """
    check_unrestricted(caller)
    found = await here.client.anodes()
    return NodesAnswer(items=[NodeAnswer.of(each) for each in found])


@router.post("/v1/preview")
async def preview(body: PreviewBody, here: Here, caller: JobReader) -> PreviewAnswer:
    """The next fire times of a trigger; nothing is stored."""
    now = here.clock.now()

    def asked() -> PreviewAnswer:
        trigger = trigger_of(body.trigger, now)
        return PreviewAnswer.computed(trigger, body.n, body.after or now)

    return await on_thread(asked)


@router.get("/v1/why")
async def why(
    asked: Annotated[WhyOfQuery, Query()], here: Here, caller: RunReader
) -> WhyAnswer:
    """What happened or will happen at an instant, and the reason."""
    id = asked.definition_id
    if is_restricted(caller):
        try:
            await seen_definition(here, caller, id)
        except TaskDefinitionNotFoundError:
            # It may be an instance.
            await seen_instance(here, caller, id)
    return WhyAnswer.of(await seen_why(here, caller, id, asked.at))


def _is_well(here: Context) -> bool:
    """Whether the scheduler runs and its loops tick; a client has no scheduler."""
    if not isinstance(here.client, Scheduler):
        return True
    health = here.client.health()
    return health.node is not None and all(each.ok for each in health.loops.values())
