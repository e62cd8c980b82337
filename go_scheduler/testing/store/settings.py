"""Store suite: what all nodes agree on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.testing.builders import at_once

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store

THREADS = 8
LONG = "\U0001f511 Schlüssel \"'\\,{}%s:x\n" * 100


class SettingTests:
    """``keep_setting``."""

    def test_the_first_to_ask_has_set_it(self, store: Store) -> None:
        assert store.keep_setting("key", "first") == "first"
        assert store.keep_setting("key", "second") == "first"
        assert store.keep_setting("key", "first") == "first"

    def test_settings_are_kept_apart_by_their_names(self, store: Store) -> None:
        names = ["key", "Key", "key ", "Schlüssel", "\U0001f511", ""]
        for number, name in enumerate(names):
            assert store.keep_setting(name, str(number)) == str(number)
        kept = [store.keep_setting(name, "another") for name in names]
        assert kept == ["0", "1", "2", "3", "4", "5"]

    def test_a_setting_comes_back_as_it_was_given(self, store: Store) -> None:
        for value in (LONG, "", " ", "null", "7"):
            assert store.keep_setting(f"as {value}", value) == value
            assert store.keep_setting(f"as {value}", "another") == value

    def test_all_who_ask_at_once_get_the_same(self, store: Store) -> None:
        for name in ("a", "b", "c", "d", "e"):
            values = [str(number) for number in range(THREADS)]
            answers = at_once(
                *(partial(store.keep_setting, name, each) for each in values)
            )
            [kept] = set(answers)
            assert kept in values
            assert store.keep_setting(name, "late") == kept
