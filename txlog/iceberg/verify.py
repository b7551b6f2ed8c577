"""Compares what Iceberg readers see with the table's log: a version must have the same files and deleted rows.

In: a table's stores. Out: what differs; nothing for a table that was never exported.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from txlog.core.store import ICEBERG, TableStore
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.errors import IcebergExportError, TxlogError
from txlog.iceberg.exporter import place_of
from txlog.iceberg.live_files import SeenFile, live_files
from txlog.iceberg.metadata.file_encoder import location_of
from txlog.iceberg.metadata.names import metadata_name
from txlog.iceberg.metadata.table_metadata import Exported
from txlog.iceberg.metadata_folder import MetadataFolder
from txlog.result import counted

_REPAIR = "export_iceberg(rebuild=True) exports the table again"
_EXAMPLES_MAX = 20


class IcebergProblem(msgspec.Struct, frozen=True):
    """What is wrong with the Iceberg metadata; ``path`` is the metadata file, relative to the table."""

    message: str
    path: str
    is_warning: bool = False
    rule: str = "iceberg-differs"


def check_iceberg(store: TableStore) -> Iterator[IcebergProblem]:
    """Compare the newest versions. Yields nothing if the log cannot be read, which is reported elsewhere."""
    if store.iceberg is None:
        return
    try:
        log = DeltaLog(store)
        state = log.newest_state()
        files = log.files(state)
    except TxlogError:
        return
    folder = MetadataFolder(store.iceberg, place_of(store.uri))
    path = ICEBERG
    try:
        newest = folder.newest()
        if newest is None:
            return
        path = f"{ICEBERG}/{metadata_name(newest.number)}"
        exported = folder.exported(newest)
        yield from _lag(exported, state, path)
        if exported.version != state.version or exported.document["location"] != folder.place.location:
            return
        seen = live_files(folder, exported, state.metadata)
    except IcebergExportError as error:
        yield IcebergProblem(f"cannot be read by txlog, and its readers may see other rows: {error.message}", path)
        return
    root = folder.place.root
    vectors = files.column("deletionVector").to_pylist()
    expected = {
        location_of(name, root): SeenFile(vector["cardinality"] if vector else 0)
        for name, vector in zip(files.column("path").to_pylist(), vectors, strict=True)
    }
    differences = sorted(name for name in seen.keys() | expected.keys() if seen.get(name) != expected.get(name))
    for name in islice(differences, _EXAMPLES_MAX):
        yield IcebergProblem(f"{_difference(name, seen, expected)}; {_REPAIR}", path)
    if len(differences) > _EXAMPLES_MAX:
        yield IcebergProblem(f"and {counted(len(differences) - _EXAMPLES_MAX, 'file')} more", path)


def _lag(exported: Exported, state: TableState, path: str) -> Iterator[IcebergProblem]:
    if exported.version < state.version:
        behind = counted(state.version - exported.version, "version")
        message = f"shows version {exported.version}, {behind} behind: export_iceberg() catches up"
        yield IcebergProblem(message, path, is_warning=True)


def _difference(name: str, seen: dict[str, SeenFile], expected: dict[str, SeenFile]) -> str:
    if name not in expected:
        return f"has {name}, which the log lacks"
    if name not in seen or not seen[name].times:
        return f"lacks {name}, which the log has"
    if seen[name].times > 1:
        return f"has {name} {seen[name].times} times, the log only once: readers get its rows that often"
    deleted = counted(seen[name].dead_rows, "row"), counted(expected[name].dead_rows, "row")
    return f"deletes {deleted[0]} of {name}, the log {deleted[1]}"
