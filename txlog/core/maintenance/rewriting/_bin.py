"""`Bin`: files of one partition that are rewritten together. ``core/maintenance/_bins`` chooses them."""

from __future__ import annotations

import msgspec

from txlog.core.format.actions import AddFile


class Bin(msgspec.Struct, frozen=True):
    """Files of one partition that become one file, in the order of their rows in it."""

    files: tuple[AddFile, ...]

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        return sum(add.size for add in self.files)
