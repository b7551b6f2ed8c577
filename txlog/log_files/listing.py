"""What a log holds from a version on: its versions, published or not, and files that stand for many versions.

In: a table's stores. Out: a ``LogListing``, made from one list of the folder and what the version owner adds. A listing
is a hint: a missing name may exist. PROTOCOL.md, "File Types".
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from txlog.log.segment import LogListing, read_listing
from txlog.protocol.log_names import version_prefix
from txlog.store.base import ObjectMeta
from txlog.store.table_store import TableStore

__all__ = ["list_log"]


def list_log(store: TableStore, first: int = 0, files: Sequence[ObjectMeta] | None = None) -> LogListing:
    """The log from version ``first`` on. ``files`` is a list of the folder from there, if the caller has one.

    Raises ``StorageError``.
    """
    listing = read_listing(store.log.list_from(version_prefix(first)) if files is None else files)
    versions = store.versions.tail(first - 1, listing.commits)
    return listing if versions is listing.commits else replace(listing, commits=versions)
