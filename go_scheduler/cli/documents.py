"""The JSON that commands print: the bodies of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Bodies are imported when they are needed, as that takes long.

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from go_scheduler.http.bodies.jobs import TypeAnswer
    from go_scheduler.models import NodeInfo, TaskDefinition, TaskInstance
    from go_scheduler.triggers.previews import PreviewedTime
    from go_scheduler.why.answer import Why


def definition_document(definition: TaskDefinition) -> Mapping[str, Any]:
    """A definition."""
    from go_scheduler.http.bodies.definitions import DefinitionAnswer

    return _plain(DefinitionAnswer.of(definition))


def instance_document(instance: TaskInstance) -> Mapping[str, Any]:
    """An instance."""
    from go_scheduler.http.bodies.instances import InstanceAnswer

    return _plain(InstanceAnswer.of(instance))


def node_document(node: NodeInfo) -> Mapping[str, Any]:
    """A node."""
    from go_scheduler.http.bodies.system import NodeAnswer

    return _plain(NodeAnswer.of(node))


def why_document(why: Why) -> Mapping[str, Any]:
    """An explanation."""
    from go_scheduler.http.bodies.instances import WhyAnswer

    return _plain(WhyAnswer.of(why))


def previewed_document(time: PreviewedTime) -> Mapping[str, Any]:
    """A fire time of a preview."""
    from go_scheduler.http.bodies.instances import PreviewedAnswer

    return _plain(PreviewedAnswer.of(time))


def type_document(type: TypeAnswer) -> Mapping[str, Any]:
    """A type of jobs."""
    return _plain(type)


def _plain(body: BaseModel) -> Mapping[str, Any]:
    return body.model_dump(mode="json", by_alias=True)
