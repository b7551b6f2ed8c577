"""What one Delta commit changes in a table's files, in Iceberg's terms.

In: the file actions of a commit. Out: added and removed data files, and added and removed deletion vectors. If the
same path is removed and added, only its deletion vector (or its statistics) changed: the data file stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from txlog.core.format.actions import Action, AddFile, RemoveFile
from txlog.core.format.paths import canonical_path


class FileChanges(msgspec.Struct, frozen=True):
    """``vectors`` are files with a new deletion vector. ``without_vector`` are files that lost their vector, or were
    removed with one. ``changes_data`` is False if rows only moved.
    """

    added: Sequence[AddFile]
    removed: Sequence[RemoveFile]
    vectors: Sequence[AddFile]
    without_vector: Sequence[RemoveFile]
    changes_data: bool


def file_changes(actions: Iterable[Action]) -> FileChanges | None:
    """The changes of one commit; None if it has no file actions."""
    adds: dict[str, AddFile] = {}
    removes: dict[str, RemoveFile] = {}
    for action in actions:
        if type(action) is AddFile:
            adds[canonical_path(action.path)] = action
        elif type(action) is RemoveFile:
            removes[canonical_path(action.path)] = action
    if not adds and not removes:
        return None
    stay = adds.keys() & removes.keys()
    changed = {path for path in stay if adds[path].key[1] != removes[path].key[1]}
    return FileChanges(
        added=[add for path, add in adds.items() if path not in stay],
        removed=[remove for path, remove in removes.items() if path not in stay],
        vectors=[add for path, add in adds.items() if add.deletion_vector and (path not in stay or path in changed)],
        without_vector=[
            remove
            for path, remove in removes.items()
            if remove.deletion_vector and (path not in stay or path in changed)
        ],
        changes_data=any(add.data_change for add in adds.values())
        or any(remove.data_change for remove in removes.values()),
    )
