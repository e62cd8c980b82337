"""Where the command line keeps its tokens: a file that nobody else may read."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import AwareDatetime, TypeAdapter

from go_scheduler.http.access.login_provider import LoginError
from go_scheduler.http.access.loopback import is_safe_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What is kept of one server.

    Attributes:
        issuer: Who has given the tokens.
        client_id: As what.
        scope: What was asked for.
        access: What is sent to the server.
        refresh: What another is had for; None: nothing is.
        expires_at: Until when the first is good; None: nobody knows.
    """

    issuer: str
    client_id: str
    scope: str
    access: str = field(repr=False)
    refresh: str | None = field(repr=False)
    expires_at: AwareDatetime | None


_LOGINS = TypeAdapter(dict[str, Login])


class TokenFile:
    """Keeps logins by their servers.

    Args:
        path: The file; None: ``go_scheduler/tokens.json`` in the user's folder for
            configuration.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = _default() if path is None else path

    def get(self, server: str) -> Login | None:
        """What is kept of a server.

        Raises:
            LoginError: Others may read the file, or it is none of ours.
        """
        return self._read().get(server_key(server))

    def put(self, server: str, login: Login) -> None:
        """Keep this of a server, instead of what there was.

        Raises:
            LoginError: The file is none of ours, or cannot be written.
        """
        self._write(self._read() | {server_key(server): login})

    def remove(self, server: str) -> bool:
        """Forget a server.

        Returns:
            Whether anything was kept of it.
        """
        known = self._read()
        found = known.pop(server_key(server), None)
        if found is not None:
            self._write(known)
        return found is not None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only process that changes it."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LoginError(f"{self.path} cannot be written: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self) -> dict[str, Login]:
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise LoginError(
                        f"others may read the tokens in {self.path}: chmod 600 it, and"
                        " log in again"
                    )
                return _LOGINS.validate_json(file.read())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            raise LoginError(
                f"{self.path} cannot be read as tokens: remove it, and log in again"
            ) from None  # What it holds is in no message.

    def _write(self, known: dict[str, Login]) -> None:
        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(made, "wb") as file:
                file.write(_LOGINS.dump_json(known, indent=2))
            new.replace(self.path)
        except OSError as error:
            raise LoginError(f"{self.path} cannot be written: {error}") from error


def server_key(server: str) -> str:
    """A server's URL as it is kept.

    Raises:
        LoginError: No token may be sent there.
    """
    if not is_safe_url(server):
        raise LoginError(
            f"tokens are sent by https alone, or to this machine: not to {server!r}"
        )
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def _default() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "go_scheduler" / "tokens.json"
