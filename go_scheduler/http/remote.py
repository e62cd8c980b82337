"""A client of a server: the calls of the command line, over HTTP."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from go_scheduler.client.pages import Page
from go_scheduler.errors import ScheduleWarning, TaskInstanceStateError
from go_scheduler.http.bodies.definitions import DefinitionBody
from go_scheduler.http.bodies.jobs import TypeAnswer
from go_scheduler.http.remote_requests import RemoteRequests
from go_scheduler.http.remote_values import (
    counts_of,
    definition_of,
    instance_of,
    node_of,
    run_of,
    why_of,
)
from go_scheduler.models import Cancelled, Deleted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import (
        Counted,
        DefinitionState,
        NodeInfo,
        State,
        TaskDefinition,
        TaskInstance,
        TaskRun,
    )
    from go_scheduler.why.answer import Why


class Remote(RemoteRequests):
    """Calls a server as a ``Client`` calls a store, by the same names."""

    def schedule(self, definition: TaskDefinition) -> TaskDefinition:
        """Insert a definition, or replace the one with its id."""
        return self.put(definition)[0]

    def put(self, definition: TaskDefinition) -> tuple[TaskDefinition, bool]:
        """Do what ``schedule`` does; also whether there was none of its id."""
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
            lines: Those of one request.
            asked: How they are imported: what the server takes in the URL.

        Returns:
            What the server tells, the last of it what has become of them all.
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
        """Delete a type of jobs, and what has not started of it."""
        self._of_type("DELETE", name)

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition."""
        return definition_of(self._of_definition("GET", definition_id))

    def list_definitions(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        owner: str | None = None,
        state: DefinitionState | str | None = None,
        metadata: Mapping[str, JSON] | None = None,
        **page: Any,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet every condition given."""
        contained = None if metadata is None else json.dumps(metadata)
        asked = {"name": name, "queue": queue, "owner": owner, "state": state}
        asked |= {"metadata": contained, **page}
        return self._page("/definitions", asked, definition_of)

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
            "delay": _seconds(delay),
            "key": key,
        }
        return instance_of(self._of_definition("POST", definition_id, "/run", body))

    def why(self, definition_id: UUID, at: datetime | None = None) -> Why:
        """What happened to a definition at an instant, or will; or to an instance."""
        asked = {"definition_id": str(definition_id), "at": _time(at)}
        return why_of(self._ask("GET", "/why", asked=asked, id=definition_id))

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        return instance_of(self._of_instance("GET", instance_id))

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        state: State | str | None = None,
        since: datetime | None = None,
        **page: Any,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        of = None if definition_id is None else str(definition_id)
        asked = {"definition_id": of, "name": name, "state": state}
        asked |= {"since": _time(since), **page}
        return self._page("/instances", asked, instance_of)

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read how the runs of an instance ended that did not end it well."""
        answer = self._of_instance("GET", instance_id, "/runs")
        return [run_of(each, instance_id) for each in answer["items"]]

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
        """How many instances are in each state, as far as they are counted."""
        return counts_of(self._ask("GET", "/stats"))

    def nodes(self) -> Sequence[NodeInfo]:
        """The nodes that the store has seen within the last hour."""
        return [node_of(each) for each in self._ask("GET", "/nodes")["items"]]

    def _of_type(self, method: str, name: str, body: object = None) -> Any:
        return self._ask(method, f"/types/{quote(name, safe='')}", body)

    def _of_definition(
        self, method: str, id: UUID, path: str = "", body: object = None
    ) -> Any:
        return self._ask(method, f"/definitions/{id}{path}", body, id=id)

    def _of_instance(self, method: str, id: UUID, path: str = "") -> Any:
        return self._ask(method, f"/instances/{id}{path}", id=id)


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
