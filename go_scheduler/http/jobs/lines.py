"""The lines of a body that arrives in parts (pure): one is kept at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not empty.

    Attributes:
        number: The one before has one less; those that are empty are counted.
        data: What stands in it, without its end; None: it is too long.
    """

    number: int
    data: bytes | None


class Lines:
    """Makes lines of parts, ended by LF or CRLF.

    Args:
        longest: The most bytes that a line may have.
        first: The number of the first line.

    Attributes:
        number: That of the line that has ended last.
    """

    def __init__(self, longest: int, *, first: int = 1) -> None:
        self._longest = longest
        self._held = bytearray()
        self._is_too_long = False
        self.number = first - 1

    def take(self, part: bytes) -> Iterator[Line]:
        """The lines that end in a part."""
        begin = 0
        while (end := part.find(b"\n", begin)) >= 0:
            self._hold(part[begin:end])
            begin = end + 1
            yield from self._end()
        self._hold(part[begin:])

    def rest(self) -> Iterator[Line]:
        """The last line, if it has no end."""
        if self._held or self._is_too_long:
            yield from self._end()

    def _hold(self, part: bytes) -> None:
        if not self._is_too_long:
            self._held += part
            # The end of the line may follow its CR.
            self._is_too_long = len(self._held) > self._longest + 1

    def _end(self) -> Iterator[Line]:
        self.number += 1
        data, is_too_long = bytes(self._held), self._is_too_long
        self._held.clear()
        self._is_too_long = False
        if self.number == 1:
            data = data.removeprefix(_MARK)
        data = data.strip(b" \t\r")
        if is_too_long or len(data) > self._longest:
            yield Line(self.number, None)
        elif data:
            yield Line(self.number, data)
