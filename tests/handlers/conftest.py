from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from go_scheduler import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def refused(call: Callable[..., object], *given: Any, **more: Any) -> str:
    """Why a call is refused."""
    with pytest.raises(ConfigurationError) as refusal:
        call(*given, **more)
    return str(refusal.value)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
def context(authority: trustme.CA) -> ssl.SSLContext:
    """The TLS of a server that is both localhost and shop.example."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "shop.example").configure_cert(context)
    return context
