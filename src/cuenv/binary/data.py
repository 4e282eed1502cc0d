"""Taking bytes out of a foreign binary: every offset is checked, every string is bounded.

Files are larger than memory should be, so nothing here asks for a whole file: the data is anything with a length
that yields bytes when it is sliced, such as ``bytes``, ``memoryview``, ``mmap`` or a file that reads on demand.
"""

from __future__ import annotations

import struct
from typing import Any, Literal, Protocol

from cuenv.core.errors import InputError
from cuenv.core.urls import printable

LONGEST = 1 << 16  # bytes that one string (a name, a search path) may have


class Data(Protocol):
    """The bytes of a file. A slice that reaches beyond the end is short, as with ``bytes``."""

    def __len__(self) -> int:
        """How many bytes there are."""
        ...

    def __getitem__(self, wanted: slice, /) -> bytes | bytearray | memoryview:
        """The bytes of a slice without step."""
        ...


BinaryFault = Literal["foreign", "unsupported", "damaged", "unreadable"]
"""No binary at all; one of a kind that is not read; one that cannot be as it is; one that the system does not give."""


class BinaryError(InputError):
    """A binary cannot be read: not ELF, 32-bit, big-endian, truncated, sizes that cannot be.

    Attributes:
        reason: a few words without the name of the file, which the reader does not know.
        fault: of which kind the reason is.
    """

    code = "binary"

    def __init__(self, reason: str, *, fault: BinaryFault = "damaged", file: str = "", hint: str | None = None) -> None:
        self.reason = printable(reason)  # it may hold the name of a section
        super().__init__(f"cannot read {file}: {self.reason}" if file else self.reason, hint=hint)
        self.fault: BinaryFault = fault


def take(data: Data, offset: int, size: int, what: str) -> bytes:
    """The bytes at an offset, exactly as many as asked.

    Raises:
        BinaryError: the file ends before them.
    """
    end = offset + size
    if end > len(data):
        raise BinaryError(f"truncated or damaged: {what} ends at byte {end}, the file at byte {len(data)}")
    found = bytes(data[offset:end])
    if len(found) != size:
        raise BinaryError(f"the file shrank while it was read: {what} is gone")
    return found


def numbers(data: Data, offset: int, form: struct.Struct, what: str) -> tuple[Any, ...]:
    """The fields of one record.

    Raises:
        BinaryError: the file ends before its end.
    """
    return form.unpack(take(data, offset, form.size, what))


class Strings:
    """A table of strings that end with a zero byte, and a budget.

    Hostile tables let a thousand names share one long string: reading them all would take quadratic time. What all
    names of one reader may have together is therefore bounded.
    """

    def __init__(self, data: Data, offset: int, size: int, *, budget: int, what: str) -> None:
        self._data, self._offset, self._size, self._what = data, offset, size, what
        self._left = budget

    def at(self, index: int) -> str:
        """The string at an index; bytes that are no UTF-8 are kept as lone surrogates (as ``os.fsdecode`` does).

        Raises:
            BinaryError: it is outside of the table, without an end, too long, or the budget is spent.
        """
        if index >= self._size:
            raise BinaryError(f"damaged: a name at {index} of {self._what}, which has {self._size} bytes")
        start, length = self._offset + index, 64
        while True:
            length = min(length, self._size - index)
            chunk = take(self._data, start, length, self._what)
            end = chunk.find(b"\0")
            if end >= 0:
                break
            if length == self._size - index or length >= LONGEST:
                raise BinaryError(f"damaged: a name at {index} of {self._what} has no end")
            length *= 8
        self._left -= end + 1
        if self._left < 0:
            raise BinaryError(f"hostile: the names in {self._what} overlap beyond reason")
        return chunk[:end].decode("utf-8", "surrogateescape")
