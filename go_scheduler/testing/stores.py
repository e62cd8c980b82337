"""The store suite: tests what ``Store`` promises, for any store, in six lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.testing.clock import ManualClock
from go_scheduler.testing.store import (
    claims,
    definitions,
    edits,
    firings,
    nodes,
    runs,
    slots,
    views,
)

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store


class StoreSuite(
    definitions.PutTests,
    edits.EditTests,
    edits.DeleteTests,
    edits.PauseTests,
    firings.DueTests,
    firings.FireTests,
    firings.WaitingTests,
    firings.OnDemandTests,
    firings.AddTests,
    firings.OverrideTests,
    firings.BackfillTests,
    claims.HandOverTests,
    claims.ClaimTests,
    claims.LapsedTests,
    claims.LostClaimTests,
    nodes.ListClaimedTests,
    claims.StartTests,
    slots.SlotTests,
    slots.ReviewTests,
    edits.SlotEditTests,
    runs.FinishTests,
    runs.DeletionTests,
    runs.RemoteRunTests,
    runs.BusRunTests,
    views.OriginTests,
    runs.SuccessTests,
    runs.HistoryTests,
    runs.ReopenTests,
    runs.ReleaseTests,
    runs.CancelTests,
    nodes.ContactTests,
    nodes.DueQueuesTests,
    nodes.StatsTests,
    nodes.SettingTests,
    definitions.DefinitionListTests,
    views.InstanceListTests,
    views.ViewTests,
    nodes.CleanupTests,
    definitions.SetTests,
    views.ValueTests,
    definitions.UnknownTriggerTests,
    views.OpenTests,
    nodes.ThreadTests,
):
    """Tests a store: subclass it and say how to make one.

    ```python
    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self, clock: ManualClock) -> Iterator[Store]:
            store = MyStore(clock=clock)
            store.initialize()
            yield store
            store.close()
    ```

    The fixture ``store`` yields an empty, initialized store on the ``clock``. Nothing
    else is needed, and no test can be switched off: a store that fails a test breaks a
    promise that the schedulers rely on. If the store does not use the clock, one test
    fails and the others are skipped. If its scans miss for a moment what was just
    committed, set ``Store.settling``; see ``settle``.
    """

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The clock of the store; the tests move it."""
        return ManualClock()

    @pytest.fixture
    def store(self, clock: ManualClock) -> Store:
        """The store to test; a subclass provides it."""
        # There are hundreds of tests, and none of their lines says more.
        pytest.fail(
            "write a fixture `store(self, clock)` that yields an empty, initialized"
            " store on that clock",
            pytrace=False,
        )

    @pytest.fixture(autouse=True)
    def _on_its_clock(self, request: pytest.FixtureRequest) -> None:
        """Skip the other tests if the store does not use the clock."""
        says_so = StoreSuite.test_the_store_goes_by_the_clock_it_was_given.__name__
        if "store" not in request.fixturenames or request.function.__name__ == says_so:
            return
        store: Store = request.getfixturevalue("store")
        clock: ManualClock = request.getfixturevalue("clock")
        if store.now() != clock.now():
            pytest.skip(f"the store does not go by its clock=: see {says_so}")
