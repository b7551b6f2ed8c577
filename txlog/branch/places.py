"""Where branches lie, and how a branch and its table name the same files.

In: locations, and paths as the two logs have them. Out: the location of a branch, ``<table>/_branches/<name>``, and
each file's path in the other log. Every engine's vacuum takes a folder that begins with ``_`` for hidden: neither a
vacuum of the table nor one of a branch lists the files of the other. Pure. PROTOCOL.md, "Add File and Remove File".

A branch names the table's files by ``file:/data/t/a.parquet``, or as ``s3://b/t/a.parquet``. ``../../a.parquet`` helps
DuckDB on a disk and Polars in a bucket, but Spark's ``VACUUM ... LITE`` takes such a file for the branch's own, and
deletes it if it is forced. ``/data/t/a.parquet`` helps DuckDB alone; Spark removes it by another spelling, and then
deltalake and DuckDB show the rows twice.
"""

from __future__ import annotations

import os
import re
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.file_columns import DELETION_VECTOR
from txlog.core.format.paths import canonical_path, encode_path, path_below, resolve_data_path, uri_of
from txlog.errors import InvalidInputError
from txlog.extend.commits import cached_property, invalid

FOLDER: Final = "_branches"
"""The folder of a table in which its branches lie, each in a folder that has its name."""

_FEW = 300
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(name: object, table: str) -> str:
    """The name of a branch. Raises InvalidInputError for what cannot be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        expected = "at most 100 letters, digits, '.', '_' and '-', the first of them a letter or a digit"
        raise invalid("name of a branch", name, expected, table=table)
    return name


def place_of(table: str, name: str) -> str:
    """The location of a branch."""
    return f"{table.rstrip('/')}/{FOLDER}/{name}"


def table_of(uri: str) -> tuple[str, str] | None:
    """The location of the table and the name of its branch at ``uri``; None if no branch can be there."""
    table, folder, name = uri.rstrip("/").rpartition(f"/{FOLDER}/")
    return (table, name) if folder and table and _NAME.fullmatch(name) else None


def split_branch(location: str) -> tuple[str, str] | None:
    """The table and the branch that ``/data/orders@backfill`` may name; None if it names none."""
    table, at, name = location.rstrip("/").rpartition("@")
    is_last = "/" not in name and os.sep not in name
    if not at or not is_last or not table or table.endswith(("/", os.sep)) or not _NAME.fullmatch(name):
        return None
    scheme, _, rest = table.rpartition("://")
    return None if scheme and "/" not in rest else (table, name)  # az://container@account is no branch


class Places(msgspec.Struct, frozen=True, dict=True):
    """How the logs of a table and of its branch name files.

    ``table`` is the table's location as it was when the branch was made, which the branch's absolute paths begin with.
    """

    table: str
    name: str

    @cached_property
    def _root(self) -> str:
        return uri_of(self.table)

    @property
    def _own(self) -> str:
        return f"{FOLDER}/{self.name}/"

    def in_branch(self, add: AddFile) -> AddFile:
        """A file of the table as the branch names it, with its row ids."""
        vector = None if add.deletion_vector is None else self._vector(add.deletion_vector)
        return replace(add, path=self._path_in_branch(add.path), deletion_vector=vector, data_change=True)

    def files_in_branch(self, files: pa.Table) -> pa.Table:
        """Files of the table (``FILES_SCHEMA``) as the branch names them, column by column: there may be millions."""
        for column, named in (("path", self._paths), ("deletionVector", self._vectors)):
            place = files.schema.get_field_index(column)
            field = files.schema.field(place)
            files = files.set_column(
                place, field, pa.chunked_array([named(each) for each in files[column].chunks], field.type)
            )
        return files

    def own_files(self, files: pa.Table) -> pa.Table:
        """Those of the table's files that lie in the branch's folder, as the branch names them."""
        from txlog.core.format.arrow.compute import pc

        return self.files_in_branch(files.filter(pc.starts_with(files["path"], self._own)))

    def _paths(self, paths: pa.StringArray) -> pa.StringArray:
        if len(paths) <= _FEW:  # a call of Arrow's costs as much as some hundred paths
            start, own, is_own = f"{self._root}/", self._own, self.is_own
            texts = paths.to_pylist()
            together = "\n".join(("", *texts))
            if not (":" in together or "\n/" in together or f"\n{own}" in together):
                return pa.array([start + path for path in texts], pa.string())
            found = [
                start + path if is_own(path) and not path.startswith(own) else self._path_in_branch(path)
                for path in texts
            ]
            return pa.array(found, pa.string())
        from txlog.core.format.arrow.compute import pc

        named = pc.binary_join_element_wise(pa.scalar(f"{self._root}/"), paths, "")
        is_odd = pc.or_(pc.match_substring_regex(paths, "^/|:"), pc.starts_with(paths, self._own))
        odd = [self._path_in_branch(path) for path in paths.filter(is_odd).to_pylist()]
        return pc.replace_with_mask(named, is_odd, pa.array(odd, pa.string())) if odd else named

    def _path_in_branch(self, path: str) -> str:
        if not self.is_own(path):
            below = path_below(self.table, resolve_data_path(path))
            path = path if below is None else encode_path(below)
            if not self.is_own(path):
                return path
        return path.removeprefix(self._own) if path.startswith(self._own) else f"{self._root}/{path}"

    def in_table(self, path: str) -> str:
        """The path of the branch's log as the table names it, in one spelling (`canonical_path`)."""
        if self.is_own(path):
            return canonical_path(f"{self._own}{path}")
        below = path_below(self.table, resolve_data_path(path))
        return canonical_path(path if below is None else encode_path(below))

    @staticmethod
    def is_own(path: str) -> bool:
        """Whether a path of the branch's log leads into the branch's own folder."""
        return not path.startswith("/") and ":" not in path

    def _vector(self, vector: DeletionVectorDescriptor) -> DeletionVectorDescriptor:
        found = vector_path(vector)
        if found is None or not found.is_relative:
            return vector
        return replace(vector, storage_type="p", path_or_inline=f"{self._root}/{encode_path(found.path)}")

    def _vectors(self, column: pa.StructArray) -> pa.StructArray:
        """The same for a column of vectors. Many of them share a file."""
        if column.null_count == len(column):
            return column
        named: dict[tuple[str, str], DeletionVectorDescriptor] = {}
        rows = column.to_pylist()
        for row in rows:
            if row is None:
                continue
            key = row["storageType"], row["pathOrInlineDv"]
            if key not in named:
                named[key] = self._vector(DeletionVectorDescriptor.from_json(row))
            row["storageType"], row["pathOrInlineDv"] = named[key].storage_type, named[key].path_or_inline
        return pa.array(rows, DELETION_VECTOR)


def require_no_branch(uri: str) -> None:
    """Raises InvalidInputError for the location of a branch: it has no branches of its own."""
    found = table_of(uri)
    if found is not None:
        raise InvalidInputError(
            f"this is the branch {found[1]!r} of {found[0]}, and a branch has no branches: make one of the table",
            table=uri,
        )
