"""All statements of SQLite, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.sqlite.statements import (
    additions,
    claims,
    cleanup,
    definitions,
    history,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import TextClause
    from sqlalchemy.sql.expression import TextualSelect

    from go_scheduler.stores.sqlite.statements.statement import Statement

STATEMENTS: Mapping[str, Statement | TextClause | TextualSelect | str] = {
    "due": definitions.DUE,
    "due_after": definitions.DUE_AFTER,
    "definitions": definitions.DEFINITIONS,
    "known": definitions.KNOWN,
    "insert_new": definitions.INSERT_NEW,
    "insert_contents": definitions.INSERT_CONTENTS,
    "fire": definitions.FIRE,
    "live": additions.LIVE,
    "add": additions.ADD,
    "add_started": additions.ADD_STARTED,
    "make": definitions.MAKE,
    "go_on": definitions.GO_ON,
    "claim": claims.claim(2, (0, 1)),
    "look": claims.LOOK,
    "find_lapsed": claims.FIND_LAPSED,
    "claim_lapsed": claims.CLAIM_NAMED,
    "list_claimed": claims.LIST_CLAIMED,
    "start": runs.START,
    "wanted_slots": runs.WANTED_SLOTS,
    "take_slot": runs.TAKE_SLOT,
    "start_in_slots": runs.START_IN_SLOTS,
    "free_slot": runs.FREE_SLOT,
    "renew": runs.RENEW,
    "release": runs.RELEASE,
    "finish_well": runs.FINISH_WELL,
    "finish_found": runs.FINISH_FOUND,
    "finish_end": runs.FINISH_END,
    "finish_retry": runs.FINISH_RETRY,
    "cancel": runs.CANCEL,
    "keep_result": runs.KEEP_RESULT,
    "keep_run": history.KEEP_RUN,
    "keep_lost": history.KEEP_LOST,
    "trim_runs": history.TRIM_RUNS,
    "delete_runs": history.DELETE_RUNS,
    "note_contact": cleanup.NOTE_CONTACT,
    "list_contacts": cleanup.LIST_CONTACTS,
    "delete_contacts": cleanup.DELETE_CONTACTS,
    "delete_stats": cleanup.DELETE_STATS,
    "delete_ended": cleanup.DELETE_ENDED,
    "delete_failed": cleanup.DELETE_FAILED,
    "delete_completed": cleanup.DELETE_COMPLETED,
    "delete_deleted": cleanup.DELETE_DELETED,
    "delete_contents": cleanup.DELETE_CONTENTS,
    "remember": cleanup.REMEMBER,
}
"""``claim`` is that of two queues and two classes."""
