"""The options that choose what is changed, and what is told where that is nothing."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

import typer

from go_scheduler.cli.asking import confirm
from go_scheduler.cli.identifying import NoneMeantError, definition_meant, near_name
from go_scheduler.cli.listing import pages
from go_scheduler.cli.options import Metadata, Name, Queue
from go_scheduler.cli.reading import object_of
from go_scheduler.cli.where import Connected
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import State
from go_scheduler.shown import shown


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The options that choose definitions, instead of their ids."""

    name: Name = None
    queue: Queue = None
    metadata: Metadata = None
    everything: Annotated[bool, typer.Option("--all", help="All that there are.")] = (
        False
    )

    def confirmed(
        self, client: Connected, given: list[str] | None, to: str, *, yes: bool
    ) -> list[UUID]:
        """The ids of the definitions that are meant, if the user agrees.

        Raises:
            ConfigurationError: Nothing says which, or it is said in two ways; or nobody
                can be asked.
            NoneMeantError: There is none.
        """
        ids = self._ids(client, given)
        confirm(f"{to} {len(ids)} definitions", len(ids), yes=yes)
        return ids

    def _ids(self, client: Connected, given: list[str] | None) -> list[UUID]:
        filters = {
            "name": self.name,
            "queue": self.queue,
            "metadata": object_of(self.metadata, "--metadata"),
        }
        filtered = any(each is not None for each in filters.values())
        if bool(given) + filtered + self.everything != 1:
            raise ConfigurationError(
                "say which: by their ids, or by --name, --queue and --metadata, or by"
                " --all"
            )
        if given:
            meant = [definition_meant(client, each) for each in given]
            return list(dict.fromkeys(meant))
        found = [each.id for each in pages(client.list_definitions, filters, None)[0]]
        if not found:
            raise NoneMeantError(self._none(client))
        return found

    def _none(self, client: Connected) -> str:
        """What there is no definition of."""
        if self.everything:
            return "there is no definition"
        said = {
            "has the name": self.name,
            "is in the queue": self.queue,
            "has metadata that contains": self.metadata,
        }
        words = " and ".join(
            f"{words} {shown(each)}" for words, each in said.items() if each is not None
        )
        near = "" if self.name is None else near_name(client, self.name)
        return f"no definition {words}{near}"


def failed_meant(
    client: Connected, *, name: str | None, definition: str | None
) -> list[UUID]:
    """The ids of the instances that have failed, of a name, a definition, or both.

    Raises:
        NoneMeantError: There is none.
        ConfigurationError: There are several definitions that may be meant.
    """
    of = None if definition is None else definition_meant(client, definition)
    filters = {"definition_id": of, "name": name, "state": State.FAILED}
    found = [each.id for each in pages(client.list_instances, filters, None)[0]]
    if found:
        return found
    if name is not None and not _is_known(client, name):
        near = near_name(client, name)
        raise NoneMeantError(f"nothing has the name {shown(name)}{near}")
    given = [shown(each) for each in (definition, name) if each is not None]
    raise NoneMeantError(f"nothing of {' with the name '.join(given)} has failed")


def _is_known(client: Connected, name: str) -> bool:
    """Whether something has a name, if only what is left of a definition."""
    definitions = client.list_definitions(name=name, limit=1)
    return bool(definitions or client.list_instances(name=name, limit=1))
