"""How the desk writes batches, and answers each of what they name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.running.elsewhere import Extending, Failing, Reporting, Success
from go_scheduler.shown import shown
from go_scheduler.stores.messages import Renewal, RunOutcome
from go_scheduler.ticking.batches import write_in_halves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from go_scheduler.stores.messages import Answer

Given = TypeVar("Given", Success, Failing, Extending | Reporting)
Came = TypeVar("Came")
Record = TypeVar("Record", RunOutcome, Renewal)
Done = TypeVar("Done")


def write_each(
    records: Mapping[int, Record],
    write: Callable[[Sequence[Record]], Answer[Done]],
) -> tuple[Sequence[Done], Mapping[int, StoreError]]:
    """Write a batch; what cannot be written costs only itself.

    Returns:
        What was done, and by their numbers why others could not be written.
    """
    failed: dict[UUID, StoreError] = {}

    def fail(record: Record, error: Exception) -> None:
        failed[record.claim.instance_id] = (
            error if isinstance(error, StoreError) else StoreError(shown(error))
        )

    answers = write_in_halves(list(records.values()), write, fail)
    failed |= {id: locked(id) for answer in answers for id in answer.busy}
    refused = {
        number: failed[each.claim.instance_id]
        for number, each in records.items()
        if each.claim.instance_id in failed
    }
    return [answer.done for answer in answers], refused


def each_instance_once(
    given: Sequence[Given],
) -> Iterable[Sequence[tuple[int, Given]]]:
    """What was given, with its numbers, so that no batch names an instance twice."""
    batches: list[list[tuple[int, Given]]] = []
    seen: Counter[UUID] = Counter()
    for number, each in enumerate(given):
        id = each.claim.instance_id
        if seen[id] == len(batches):
            batches.append([])
        batches[seen[id]].append((number, each))
        seen[id] += 1
    return batches


def the_one(answers: Sequence[Came | StoreError]) -> Came:
    """The answer to a batch of one; it is raised if it is an error."""
    [answer] = answers
    if isinstance(answer, StoreError):
        raise answer
    return answer


def locked(instance_id: UUID) -> StoreUnavailableError:
    """The error where another transaction has locked an instance."""
    return StoreUnavailableError(
        f"instance {instance_id}: another transaction has locked it; asking again may"
        " help"
    )
