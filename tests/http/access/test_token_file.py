"""Tokens are kept in a file that nobody else may read."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.http.access.login import Login, LoginError, TokenFile
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER = "https://tasks.example.org"
LOGIN = Login(
    issuer="https://login.example.org",
    client_id="cli",
    scope="openid",
    access="secret-one",
    refresh="secret-two",
    expires_at=START + timedelta(microseconds=1),
)


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "go_scheduler" / "tokens.json")


@pytest.fixture(params=[0o000, 0o022])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_nobody_else_may_read_it_whatever_the_umask(file: TokenFile) -> None:
    file.put(SERVER, LOGIN)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    with file.locked():
        pass
    assert [each.name for each in sorted(file.path.parent.iterdir())] == [
        "tokens.json",
        "tokens.json.lock",
    ]


def test_what_is_kept_comes_back_by_its_server(file: TokenFile) -> None:
    assert "secret" not in repr(LOGIN)
    assert file.get(SERVER) is None
    file.put(f"{SERVER}/", LOGIN)
    file.put("http://127.0.0.1:8710", LOGIN)
    assert file.get("https://TASKS.example.org") == LOGIN
    assert file.remove(SERVER)
    assert not file.remove(SERVER)
    assert file.get(SERVER) is None
    assert file.get("http://127.0.0.1:8710") == LOGIN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_read_is_not_used(file: TokenFile, mode: int) -> None:
    file.put(SERVER, LOGIN)
    file.path.chmod(mode)
    with pytest.raises(LoginError, match="chmod 600"):
        file.get(SERVER)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": 1}', '{"a": {"access": "secret-one"}}', "\xff"]
)
def test_a_file_that_is_none_of_ours_is_an_error_that_shows_nothing_of_it(
    file: TokenFile, text: str
) -> None:
    file.put(SERVER, LOGIN)
    file.path.write_text(text, encoding="latin-1")
    with pytest.raises(LoginError, match="remove it, and log in again") as error:
        file.get(SERVER)
    assert "secret" not in str(error.value)
    assert error.value.__suppress_context__


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = TokenFile(tmp_path / "file" / "tokens.json")
    with pytest.raises(LoginError, match="cannot be"):
        file.put(SERVER, LOGIN)
    with pytest.raises(LoginError, match="cannot be written"):
        file._write({})
    with pytest.raises(LoginError, match="cannot be written"), file.locked():
        pass


def test_it_is_in_the_folder_for_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert TokenFile().path == tmp_path / "go_scheduler/tokens.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TokenFile().path == tmp_path / ".config/go_scheduler/tokens.json"
