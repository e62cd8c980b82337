"""The revisions of the schema, in their order."""

from __future__ import annotations

from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDER = Path(__file__).parent


class Script(NamedTuple):
    """A revision, and the module that leads to it."""

    revision: str
    module: Any


class History:
    """Every revision, from the first to the newest.

    Args:
        versions: The folder that has them. Their names are in the order in which they
            were written.
    """

    def __init__(self, versions: Path) -> None:
        files = sorted(versions.glob("r[0-9]*.py"))
        self._scripts = tuple(map(_read, files))
        self._revisions = [script.revision for script in self._scripts]

    @property
    def head(self) -> str:
        """The newest revision."""
        return self._revisions[-1]

    def after(self, revision: str | None) -> Sequence[Script]:
        """What is to be done from a revision on, in order; None is an empty database.

        Raises:
            ConfigurationError: There is no such revision.
        """
        if revision is None:
            return self._scripts
        if revision not in self._revisions:
            raise ConfigurationError(
                f"there is no revision {shown(revision)}; there are"
                f" {self._revisions[0]} to {self.head}"
            )
        return self._scripts[self._revisions.index(revision) + 1 :]

    def recognise(self, found: Sequence[str]) -> str | None:
        """The revision that a database is at, by what its table of versions says.

        Raises:
            StoreError: It is none of these, or more than one.
        """
        if len(found) > 1:
            raise StoreError(
                f"the table go_scheduler_schema_version says {', '.join(found)}, and"
                " should say one revision: two migrations have run beside each other,"
                " or one by other means"
            )
        if not found:
            return None
        if found[0] < self._revisions[0]:
            raise StoreError(
                f"the database's schema is at revision {found[0]}, which was made"
                f" before {self._revisions[0]}, the first that leads to later ones:"
                " recreate the database, or name another one"
            )
        if found[0] not in self._revisions:
            raise StoreError(
                f"the database's schema is at revision {found[0]}, which was made by a"
                f" newer go_scheduler; this one knows {self.head} as the newest:"
                " upgrade it"
            )
        return found[0]


@cache
def history() -> History:
    """The history of this package's schema, read once."""
    return History(_FOLDER / "versions")


def _read(file: Path) -> Script:
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    return Script(module.revision, module)
