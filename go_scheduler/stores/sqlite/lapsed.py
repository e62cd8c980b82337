"""Claims in SQLite what others have claimed and lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from go_scheduler.stores.sql.lapsed import silences_of
from go_scheduler.stores.sqlite.statements import claims, history

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from sqlalchemy import Connection, Row

    from go_scheduler.models import Silence


def claim_lapsed(
    connection: Connection, queues: Sequence[str], terms: Mapping[str, object]
) -> tuple[Sequence[Row[Any]], Mapping[UUID, Silence]]:
    """Claim what has lapsed anew.

    Returns:
        The rows, and by their ids what is known of those runs that were on a bus.
    """
    parameters = {**terms, "queues": json.dumps(queues)}
    found = claims.FIND_LAPSED.fetch(connection, parameters)
    if not found:
        return [], {}
    named = {**terms, "ids": json.dumps([row.id.hex for row in found])}
    connection.exec_driver_sql(history.KEEP_LOST, named)
    return claims.CLAIM_NAMED.execute(connection, named), silences_of(found)
