from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

if TYPE_CHECKING:
    from pathlib import Path


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
