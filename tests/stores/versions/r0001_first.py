"""What the store needs."""

from __future__ import annotations

from go_scheduler.stores.migrations.versions.r0001_initial import upgrade

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0001"
down_revision = None
