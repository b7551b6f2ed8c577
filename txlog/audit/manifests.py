"""Compares a table's symlink manifests with its live files: readers by manifest see what the manifests list.

In: a table's stores and a version. Out: each manifest that differs, once. Only tables that promise manifests have them
checked. Spark's Delta and txlog write the same lines, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from txlog.core.changes.tasks import FileProblem
from txlog.core.parallel import parallel_map
from txlog.core.store import TableStore
from txlog.core.versions.decisions.symlink_manifests import FOLDER, manifests_of
from txlog.core.versions.files import DeltaLog
from txlog.errors import NotFoundError, TxlogError
from txlog.result import counted

_EXAMPLES_MAX = 20
_AT_ONCE = 8
_REPAIR = "readers by manifest see other rows until the next write, or generate(), updates it"


def check_manifests(store: TableStore, version: int) -> Iterator[FileProblem]:
    """Compare with ``version``. Yields nothing if the log cannot be read, which is reported elsewhere."""
    try:
        log = DeltaLog(store)
        newest = log.newest_state()
        if newest.version != version or not newest.properties.symlink_manifests:
            return
        expected = manifests_of(store.uri, newest, log.files(newest)).texts
    except TxlogError:
        return
    there = {meta.name for page in store.files.list(FOLDER) for meta in page if meta.name.endswith("/manifest")}
    found = dict(
        parallel_map(lambda path: (path, _lines(store, path)), sorted(expected.keys() | there), threads=_AT_ONCE)
    )
    wrong = [path for path, lines in found.items() if lines != sorted(expected.get(path, "").splitlines())]
    if log.newest_state().version != version:
        return  # a writer has come, whose manifests these may be
    for path in islice(wrong, _EXAMPLES_MAX):
        named, live = len(found[path] or ()), len(expected.get(path, "").splitlines())
        message = (
            f"names {counted(named, 'file')}, and the log has {counted(live, 'live file')} there or others: {_REPAIR}"
        )
        yield FileProblem("manifest-differs", message, path)
    if len(wrong) > _EXAMPLES_MAX:
        yield FileProblem("manifest-differs", f"and {len(wrong) - _EXAMPLES_MAX} more manifests", FOLDER)


def _lines(store: TableStore, path: str) -> list[str]:
    try:
        return sorted(store.files.read_from(path, 0).decode(errors="replace").splitlines())
    except NotFoundError:
        return []
