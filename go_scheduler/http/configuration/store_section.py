"""The section on the store, which commands read without the other sections."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import SecretStr, ValidationError, model_validator

from go_scheduler.http.configuration.files import find_file, read_file
from go_scheduler.http.configuration.section import Section

if TYPE_CHECKING:
    from pathlib import Path

_VARIABLES = "GO_SCHEDULER_STORE__"


class StoreSection(Section):
    """The store of definitions and instances.

    Attributes:
        url: The URL of the store; None: a SQLite file in the working folder.
    """

    url: SecretStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_url(cls, given: object) -> object:
        """Accept a URL instead of the section."""
        return {"url": given} if isinstance(given, str) else given


def store_url(named: Path | None) -> str | None:
    """The URL of the store in the configuration; None: it has none.

    If the file has the URL, the other sections are not read.

    Args:
        named: The file; None: as for ``load_configuration``.

    Raises:
        ConfigurationError: The file or a setting is wrong.
    """
    file = read_file(find_file(named))
    in_variables = any(each.upper().startswith(_VARIABLES) for each in os.environ)
    if not (file.data or in_variables):
        return None
    if not in_variables:
        with suppress(ValidationError):
            section = StoreSection.model_validate(file.data.get("store"))
            if section.url is not None:
                return section.url.get_secret_value()
    # Imported only now, as it takes longer than a command. It reports what is wrong.
    from go_scheduler.http.configuration.loading import load_configuration

    url = load_configuration(named).settings.store.url
    return None if url is None else url.get_secret_value()
