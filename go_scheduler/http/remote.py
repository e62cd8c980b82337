"""A client of a server, with the methods of ``Client``, over HTTP."""

from __future__ import annotations

import json
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import httpx

from go_scheduler.audit import AuditedDefinition, AuditedTime
from go_scheduler.client.on_demand import Backfill
from go_scheduler.client.views import Page
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    ScheduleWarning,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
    TaskInstanceStateError,
)
from go_scheduler.http.access.loopback import check_safe_url
from go_scheduler.http.bodies import (
    AuditAnswer,
    BackfillAnswer,
    DefinitionAnswer,
    DefinitionBody,
    InstanceAnswer,
    NodeAnswer,
    PreviewedAnswer,
    RunAnswer,
    StatsAnswer,
    WhyAnswer,
    if_given,
)
from go_scheduler.http.jobs import TypeAnswer
from go_scheduler.http.remote_errors import error_of
from go_scheduler.models import (
    Cancelled,
    Counted,
    Deleted,
    NodeInfo,
    Skipped,
    State,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.policies import Overlap, RetryPolicy
from go_scheduler.stores.filters import all_items
from go_scheduler.triggers import OnDemandTrigger, PreviewedTime, load_trigger
from go_scheduler.why import Why

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from datetime import datetime, timedelta
    from types import TracebackType
    from uuid import UUID

    from go_scheduler.json import JSON


def definition_of(answer: Any) -> TaskDefinition:
    """A definition."""
    body = DefinitionAnswer.model_validate(answer)
    given = dict(body) | {
        "trigger": load_trigger(body.trigger.kind, body.trigger.state),
        "retry": if_given(body.retry, lambda it: it.policy("retry")),
        "catch_up": if_given(body.catch_up, lambda it: it.policy("catch_up")),
    }
    for each in ("state", "recurring", "description"):
        del given[each]
    return TaskDefinition(**given)


def instance_of(answer: Any) -> TaskInstance:
    """An instance; its definition has only the fields of the answer."""
    return _instance(InstanceAnswer.model_validate(answer))


def _instance(body: InstanceAnswer) -> TaskInstance:
    most = body.max_attempts
    definition = TaskDefinition(
        trigger=OnDemandTrigger(),
        id=body.definition_id,
        key=body.definition_key,
        name=body.name,
        queue=body.queue,
        metadata=body.metadata,
        retry=if_given(most, lambda it: RetryPolicy(max_attempts=it)),
    )
    known = TaskInstance.__dataclass_fields__.keys() & type(body).model_fields.keys()
    found = {name: getattr(body, name) for name in known}
    found["skipped"] = if_given(body.skipped, lambda it: Skipped(**dict(it)))
    return TaskInstance(definition=definition, **found)


def _node(body: NodeAnswer) -> NodeInfo:
    found = dict(body) | {
        "queues": if_given(body.queues, tuple),
        "names": if_given(body.names, tuple),
    }
    return NodeInfo(**found)


def _previewed(body: PreviewedAnswer) -> PreviewedTime:
    local = type(body.at).fromisoformat(body.local)
    return PreviewedTime(at=local, effect=body.effect)


_Item = TypeVar("_Item")
_PATIENCE = 60.0
_PAGE = 1000


class Remote:
    """Calls a server by the methods that ``Client`` has for a store.

    It keeps its connections open.

    Args:
        url: The URL of the server, such as ``http://127.0.0.1:8710``.
        token: An API key, or a token of the issuer; None: no token is sent.
        timeout: How many seconds an answer may take.
        transport: Sends the requests; None: over the network.

    Raises:
        ConfigurationError: The URL is wrong, or others could read the token.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = _PATIENCE,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"a server's URL begins with https:// or http://, not {url!r}"
            )
        if token is not None:
            check_safe_url(url)
        self._url = url.rstrip("/")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            self._http = httpx.Client(
                base_url=self._url,
                headers=headers,
                timeout=timeout,
                transport=transport,
            )
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"{url!r} is no URL: {error}") from None
        if self._http.base_url.path == "/v1/":
            raise ConfigurationError(
                f"a server's URL ends with its host and port, not with /v1: {url!r}"
            )

    def __enter__(self) -> Self:
        """Keep connections open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close them."""
        self._http.close()

    def schedule(self, definition: TaskDefinition) -> TaskDefinition:
        """Insert a definition, or replace the one with its id."""
        return self.put(definition)[0]

    def put(self, definition: TaskDefinition) -> tuple[TaskDefinition, bool]:
        """Do what ``schedule`` does; also returns whether the definition is new."""
        body = {**DefinitionBody.of(definition), "revision": definition.revision}
        method, path = "PUT", f"/definitions/{definition.id}"
        if not definition.named:
            del body["id"], body["revision"]
            method, path = "POST", "/definitions"
        response = self._response(method, path, json=body)
        answer = self._read(response)
        for each in answer["warnings"]:
            warnings.warn(each, ScheduleWarning, stacklevel=3)
        return definition_of(answer), response.status_code == 201

    def schedule_all(
        self, definitions: Iterable[TaskDefinition]
    ) -> list[TaskDefinition]:
        """Do what ``schedule`` does, one after the other."""
        return [self.schedule(each) for each in definitions]

    def import_jobs(
        self, lines: bytes, asked: Mapping[str, Any]
    ) -> Sequence[Mapping[str, Any]]:
        """Submit jobs, a line of JSON each.

        Args:
            lines: The lines of one request.
            asked: The parameters of the import, sent in the URL.

        Returns:
            The events of the import; the last one has the counts.
        """
        response = self._response(
            "POST",
            "/jobs/import",
            asked=asked,
            content=lines,
            headers={"Content-Type": "application/x-ndjson"},
        )
        try:
            return [json.loads(each) for each in response.text.splitlines()]
        except ValueError:
            raise self._stranger() from None

    def list_types(self, **page: Any) -> Page[TypeAnswer]:
        """Read a page of the types of jobs."""
        return self._page("/types", page, TypeAnswer.model_validate)

    def get_type(self, name: str) -> TypeAnswer:
        """Read a type of jobs."""
        return TypeAnswer.model_validate(self._of_type("GET", name))

    def put_type(self, name: str, said: Mapping[str, Any]) -> TypeAnswer:
        """Declare a type of jobs for workers, or change it."""
        return TypeAnswer.model_validate(self._of_type("PUT", name, said))

    def delete_type(self, name: str) -> None:
        """Delete a type of jobs, and its jobs that have not started."""
        self._of_type("DELETE", name)

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition."""
        return definition_of(self._of_definition("GET", definition_id))

    def list_definitions(
        self, *, metadata: Mapping[str, JSON] | None = None, **query: Any
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet every condition given."""
        query["metadata"] = if_given(metadata, json.dumps)
        return self._page("/definitions", query, definition_of)

    def delete_definition(self, definition_id: UUID) -> Deleted | None:
        """Delete a definition; None: there was none."""
        try:
            answer = self._of_definition("DELETE", definition_id)
        except LookupError:
            return None
        return Deleted(running=answer["running"])

    def pause(self, definition_id: UUID, note: str | None = None) -> TaskDefinition:
        """Pause a definition."""
        body = {"note": note}
        answer = self._of_definition("POST", definition_id, "/pause", body)
        return definition_of(answer)

    def resume(self, definition_id: UUID) -> TaskDefinition:
        """End a definition's pause."""
        return definition_of(self._of_definition("POST", definition_id, "/resume"))

    def run_now(
        self,
        definition_id: UUID,
        *,
        payload: Mapping[str, object] | None = None,
        at: datetime | None = None,
        delay: timedelta | None = None,
        key: str | None = None,
    ) -> TaskInstance:
        """Run a definition once more, now or at a time."""
        body = {
            "payload": payload,
            "at": _time(at),
            "delay": if_given(delay, lambda it: it.total_seconds()),
            "key": key,
        }
        return instance_of(self._of_definition("POST", definition_id, "/run", body))

    def backfill(
        self,
        definition_id: UUID,
        start: datetime,
        end: datetime,
        *,
        overlap: Overlap | None = None,
        limit: int,
    ) -> Backfill:
        """Run the fire times of a past period that have no instance."""
        body = {
            "start": _time(start),
            "end": _time(end),
            "overlap": overlap,
            "limit": limit,
        }
        answer = self._of_definition("POST", definition_id, "/backfill", body)
        return Backfill(**dict(BackfillAnswer.model_validate(answer)))

    def why(self, definition_id: UUID, at: datetime | None = None) -> Why:
        """Explain what happened or will happen to a definition or an instance."""
        asked = {"definition_id": str(definition_id), "at": _time(at)}
        answer = self._ask("GET", "/why", asked=asked, id=definition_id)
        body = WhyAnswer.model_validate(answer)
        found = dict(body) | {
            "instance": if_given(body.instance, _instance),
            "node": if_given(body.node, _node),
            "holder": if_given(body.holder, _instance),
            "nearest": tuple(map(_previewed, body.nearest)),
        }
        return Why(**found)

    def audit(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        ids: Collection[UUID] | None = None,
        retention: timedelta | None = None,
        late: timedelta | None = None,
        unchanged_since: datetime | None = None,
    ) -> Iterator[AuditedDefinition]:
        """Say of every fire time that has passed what became of it."""
        asked = {
            "since": _time(since),
            "until": _time(until),
            "unchanged_since": _time(unchanged_since),
            "retention": if_given(retention, lambda it: it.total_seconds()),
            "late": if_given(late, lambda it: it.total_seconds()),
        }
        read: Iterable[TaskDefinition]
        if ids is None:
            read = all_items(partial(self.list_definitions, limit=_PAGE))
        else:
            read = map(self.get_definition, ids)
        for each in read:
            try:
                answer = self._of_definition("GET", each.id, "/audit", **asked)
            except TaskDefinitionNotFoundError:
                if ids is None:
                    # Somebody has deleted it meanwhile.
                    continue
                raise
            body = AuditAnswer.model_validate(answer)
            times = [
                AuditedTime(
                    at=time.fire_time,
                    verdict=time.verdict,
                    late=time.late,
                    reason=time.reason,
                    instance_id=time.instance_id,
                )
                for time in body.times
            ]
            yield AuditedDefinition(
                definition=each, times=times, note=body.note, error=body.error
            )

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        return instance_of(self._of_instance("GET", instance_id))

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        since: datetime | None = None,
        **query: Any,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        query["definition_id"] = if_given(definition_id, str)
        query["since"] = _time(since)
        return self._page("/instances", query, instance_of)

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read the failed runs of an instance."""
        answer = self._of_instance("GET", instance_id, "/runs")
        found = map(RunAnswer.model_validate, answer["items"])
        return [TaskRun(instance_id=instance_id, **dict(each)) for each in found]

    def cancel(self, instance_id: UUID) -> Cancelled | None:
        """Cancel an instance; None: it had ended before."""
        try:
            answer = self._of_instance("POST", instance_id, "/cancel")
        except TaskInstanceStateError:
            return None
        return Cancelled(answer["cancelled"])

    def retry(self, instance_id: UUID) -> TaskInstance:
        """Run an instance again that has failed."""
        return instance_of(self._of_instance("POST", instance_id, "/retry"))

    def counts_up_to(self) -> Mapping[State, Counted]:
        """Count the instances in each state, up to a bound."""
        body = StatsAnswer.model_validate(self._ask("GET", "/stats"))
        return {
            state: Counted(count=count, more=state in body.more)
            for state, count in body.instances.items()
        }

    def nodes(self) -> Sequence[NodeInfo]:
        """The nodes that the store has seen within the last hour."""
        found = map(NodeAnswer.model_validate, self._ask("GET", "/nodes")["items"])
        return [*map(_node, found)]

    def _page(
        self, path: str, asked: Mapping[str, Any], read: Callable[[Any], _Item]
    ) -> Page[_Item]:
        answer = self._ask("GET", path, asked=asked)
        return Page(map(read, answer["items"]), next=answer["next"])

    def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        asked: Mapping[str, Any] | None = None,
        id: UUID | None = None,
    ) -> Any:
        """Send a request, and return the JSON of the answer.

        Raises:
            GoSchedulerError: The server is away, or refuses the request.
        """
        sent = {} if body is None else {"json": body}
        response = self._response(method, path, asked=asked, id=id, **sent)
        return None if response.status_code == 204 else self._read(response)

    def _read(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise self._stranger() from None

    def _response(
        self,
        method: str,
        path: str,
        *,
        asked: Mapping[str, Any] | None = None,
        id: UUID | None = None,
        **sent: Any,
    ) -> httpx.Response:
        said = {name: each for name, each in (asked or {}).items() if each is not None}
        try:
            response = self._http.request(
                method, f"/v1{path}", params=said or None, **sent
            )
        except httpx.HTTPError as error:
            away = isinstance(error, httpx.ConnectError)
            raise StoreUnavailableError(
                f"the server at {self._url} does not answer: {error}"
                + "; start it with `go_scheduler serve`, or mind the URL" * away
            ) from error
        if response.is_success:
            return response
        if response.is_redirect:
            raise self._stranger()
        try:
            problem = response.json()
        except ValueError:
            problem = None
        problem = problem if isinstance(problem, dict) else {}
        challenge = response.headers.get("WWW-Authenticate", "")
        raise error_of(response.status_code, problem, id, challenge)

    def _stranger(self) -> GoSchedulerError:
        return GoSchedulerError(f"{self._url} is no server of go_scheduler")

    def _of_type(self, method: str, name: str, body: object = None) -> Any:
        return self._ask(method, f"/types/{quote(name, safe='')}", body)

    def _of_definition(
        self, method: str, id: UUID, path: str = "", body: object = None, **asked: Any
    ) -> Any:
        return self._ask(method, f"/definitions/{id}{path}", body, id=id, asked=asked)

    def _of_instance(self, method: str, id: UUID, path: str = "") -> Any:
        return self._ask(method, f"/instances/{id}{path}", id=id)


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
