"""Memory that the processes of a server share: each writes into a slot of its own, and all read every slot.

There are no locks, which a killed process could hold forever. A reader of a slot that is being written sees
that its checksum does not fit, and reads again.
"""

import mmap
import struct
import time
import zlib
from typing import Any

import orjson

SLOT_BYTES = 256 * 1024
_HEAD = struct.Struct("<II")
"""Length and checksum of what a slot holds."""
_ATTEMPTS = 20


class Slots:
    """A value for each slot; made before the processes are forked."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._memory = mmap.mmap(-1, number * SLOT_BYTES)

    def write(self, index: int, value: Any) -> None:
        """Set the value of a slot; only one process may write it. What is too long for a slot is left out."""
        content = orjson.dumps(value)
        if len(content) > SLOT_BYTES - _HEAD.size:
            return
        start = index * SLOT_BYTES
        self._memory[start : start + _HEAD.size] = _HEAD.pack(0, 1)  # a checksum that fits nothing
        self._memory[start + _HEAD.size : start + _HEAD.size + len(content)] = content
        self._memory[start : start + _HEAD.size] = _HEAD.pack(len(content), zlib.crc32(content))

    def read(self, index: int) -> Any:
        """Return the value of a slot; None if it has none, or if its writer was killed while it wrote."""
        start = index * SLOT_BYTES
        for _ in range(_ATTEMPTS):
            length, checksum = _HEAD.unpack_from(self._memory, start)
            content = self._memory[start + _HEAD.size : start + _HEAD.size + length]
            if length and zlib.crc32(content) == checksum:
                return orjson.loads(content)
            if (length, checksum) == (0, 0):
                return None
            time.sleep(0.001)
        return None
