"""Folders that commands take files from: whether two are the same, and whether a table of its own lies in one.

In: the location of a table or folder, and what a listing shows. Out: one spelling for it, or an error.
"""

from __future__ import annotations

import os

from txlog.errors import InvalidInputError
from txlog.log_files.checkpoint_reader import LOG_DIRECTORY
from txlog.protocol.paths import canonical_path, uri_of

__all__ = ["refuse_table_within", "root_of"]


def root_of(uri: str) -> str:
    """The beginning of the locations of a folder's files, in one spelling: links are followed, and s3a is s3."""
    return canonical_path(uri_of(uri if "://" in uri else os.path.realpath(uri))).rstrip("/")


def refuse_table_within(folder: str, uri: str) -> None:
    """Raises ``InvalidInputError`` if this folder below ``uri`` is the log of a Delta table: files that the table no
    longer uses would count as its rows."""
    above, _, name = folder.rstrip("/").rpartition("/")
    if name == LOG_DIRECTORY and above:
        raise InvalidInputError(
            f"the folder contains another Delta table, {above}, and only its log says which of its files have"
            " live rows: take another folder, move that table away, or read it by txlog.Table.open",
            table=uri,
            path=above,
        )
