"""A provider for the tests of a module, as new for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.access.provider import Provider, provider

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def served_provider() -> Iterator[Provider]:
    with provider() as served:
        yield served


@pytest.fixture
def oidc(served_provider: Provider) -> Provider:
    served_provider.forget()
    return served_provider
