"""A folder of tables as a catalog, without a server: ``schema.table`` is the table in ``<folder>/schema/table``.

In: a path or URI of any store. Out: a `TableCatalog`. A folder is a table if it has a log. On a local disk a table that
is elsewhere has its name by a symbolic link, whose text is the table's location, so each name is taken, changed and
removed in one step. Object stores have no such step for a folder: there a table is created and dropped, but neither
renamed nor registered.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from txlog.core import ambient
from txlog.core.catalogs._names import name_parts, name_text
from txlog.core.catalogs._table_catalog import TablePlace
from txlog.core.format.schema import backquoted
from txlog.core.store import TableStore, fsync_directory, make_directories, open_store, sendable
from txlog.errors import (
    InvalidInputError,
    NotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TxlogError,
    UnsupportedFeatureError,
)

Made = TypeVar("Made")
_DEFAULT = ("default",)
"""The schema of a name with one part, as in Spark."""
_LOG = "_delta_log"
_DROPPED = ".dropped-"
_LAST = "\U0010ffff"


class FolderCatalog:
    """The tables in the folder at ``uri``. Pickles without secrets."""

    def __init__(
        self,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
    ) -> None:
        self._options = storage_options
        self._provider = credential_provider
        self._store = open_store(uri, storage_options, credential_provider)
        self._is_local = self._store.has_cheap_calls
        if self._is_local and self._has_log(self.uri):
            raise InvalidInputError(
                "this is a Delta table, not a folder of tables: Table.open opens it", table=self.uri
            )

    def __getstate__(self) -> dict[str, Any]:
        options, provider = sendable(self._options, self._provider)
        return {**vars(self), "_options": options, "_provider": provider}

    @property
    def uri(self) -> str:
        return self._store.uri

    def resolve(self, name: str) -> TablePlace:
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        place = self._place(parts)
        if self._has_log(place.uri):
            return place
        if self._is_link(parts):  # nobody should create a table where a disk is not mounted
            raise NotFoundError(
                f"{place.name} is registered, but there is no table at its location: see whether that is mounted, or"
                " drop the name",
                table=place.uri,
            )
        beside = f"{self.uri}/{parts[-1]}"
        hint = f"it would be the folder {place.uri}"
        if self._is_local and not os.path.isdir(self.uri):
            hint = f"the folder {self.uri} does not exist"
        elif self._is_local and self._has_log(beside):
            hint += f", and names do not reach the table {beside}: write delta.{backquoted(beside)} in SQL, or move it"
        raise TableNotFoundError(f"there is no table {place.name} in this catalog: {hint}", table=self.uri)

    def tables(self, schema: str | None = None) -> list[str]:
        wanted = None if schema is None else name_parts(schema, 1, is_schema=True, takes_dots=True)[0]
        names = self._folders(wanted) if self._is_local else self._prefixes(wanted)
        return sorted(name_text(name) for name in names if self._is_table(name))

    def create(self, name: str, make: Callable[[TablePlace], Made]) -> Made:
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        self._require_schema(parts[0])
        if not self._is_local:  # the put of version 0 decides
            return make(self._place(parts))
        path = self._path(parts)
        with _failing("create", path):
            make_directories(path)  # a name that a link has is not taken again
        if self._is_link(parts):
            raise _taken(name_text(parts), self.uri)
        try:
            return make(self._place(parts))
        except TxlogError:
            with suppress(OSError):
                os.rmdir(path)  # only if nothing is in it
            raise

    def require_registrable(self, name: str) -> None:
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        self._require_local("registered in", "open it by its location")
        self._require_schema(parts[0])

    def register(self, name: str, uri: str) -> None:
        self.require_registrable(name)
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        location = open_store(uri, self._options, self._provider).uri
        if not self._has_log(location):
            raise TableNotFoundError("there is no Delta table to register here", table=location)
        self._link(parts, location)

    def drop(self, name: str) -> None:
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        if not self._is_local:
            self._delete_objects(parts)
            return
        path = self._path(parts)
        with _failing("drop", path):
            if not (os.path.islink(path) or self._has_log(path)):
                raise _absent(name_text(parts), self.uri)
            if os.path.islink(path):
                os.unlink(path)
                fsync_directory(os.path.dirname(path))
                return
            schema = os.path.dirname(path)
            gone = f"{_DROPPED}{ambient.uuid4()}"
            os.rename(path, f"{schema}/{gone}")
            fsync_directory(schema)
            with suppress(FileNotFoundError):  # another drop deletes it, too
                shutil.rmtree(f"{schema}/{gone}")
            for left in os.listdir(schema):  # by a drop that crashed, or is under way
                if left.startswith(_DROPPED):
                    shutil.rmtree(f"{schema}/{left}", ignore_errors=True)

    def rename(self, name: str, to: str) -> None:
        old, new = name_parts(name, 2, _DEFAULT, takes_dots=True), name_parts(to, 2, _DEFAULT, takes_dots=True)
        self._require_local("renamed in", "clone it under the new name, then drop the old one")
        if not self._is_table(old):
            raise _absent(name_text(old), self.uri)
        if old == new:
            raise _taken(name_text(new), self.uri)
        self._require_schema(new[0])
        path, target = self._path(old), self._path(new)
        with _failing("rename", path):
            if os.path.islink(path):
                linked = os.readlink(path)
                if "://" not in linked and not os.path.isabs(linked):
                    linked = os.path.relpath(self._place(old).uri, os.path.dirname(target))
                self._link(new, linked)
                os.unlink(path)
            else:
                make_directories(os.path.dirname(target))
                try:
                    os.rename(path, target)
                except OSError as error:
                    if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                        raise _taken(name_text(new), self.uri) from None
                    raise
            for folder in {os.path.dirname(path), os.path.dirname(target)}:
                fsync_directory(folder)

    # --- places ---------------------------------------------------------------------------------------------------

    def _path(self, parts: tuple[str, ...]) -> str:
        return "/".join((self.uri.rstrip("/"), *parts))

    def _place(self, parts: tuple[str, ...]) -> TablePlace:
        path = self._path(parts)
        if self._is_local:
            with suppress(OSError):  # not a link
                target = os.readlink(path)
                path = target if "://" in target else os.path.join(os.path.dirname(path), target)
        return TablePlace(path, name_text(parts), self._options, self._provider)

    def _is_table(self, parts: tuple[str, ...]) -> bool:
        """A link is a table whatever is behind it: `resolve` says what is wrong there."""
        return self._is_link(parts) or self._has_log(self._place(parts).uri)

    def _is_link(self, parts: tuple[str, ...]) -> bool:
        return self._is_local and os.path.islink(self._path(parts))

    def _has_log(self, uri: str) -> bool:
        store = open_store(uri, self._options, self._provider)
        return os.path.isdir(f"{uri}/{_LOG}") if store.has_cheap_calls else bool(store.log.list_from(""))

    def _require_schema(self, schema: str) -> None:
        """A table inside another one's folder would be in the way of its vacuums."""
        if self._has_log(self._path((schema,))):
            raise InvalidInputError(f"{schema} is a table, so it cannot hold tables", table=self._path((schema,)))

    def _require_local(self, verb: str, instead: str) -> None:
        if not self._is_local:
            raise UnsupportedFeatureError(
                f"a table cannot be {verb} a folder of an object store, which cannot change a name in one step:"
                f" {instead}",
                table=self.uri,
            )

    def _link(self, parts: tuple[str, ...], location: str) -> None:
        path = self._path(parts)
        with _failing("register", path):
            make_directories(os.path.dirname(path))
            with suppress(OSError):
                os.rmdir(path)  # what a creation that failed left
            try:
                os.symlink(location, path)
            except FileExistsError:
                raise _taken(name_text(parts), self.uri) from None
            fsync_directory(os.path.dirname(path))

    # --- lists ----------------------------------------------------------------------------------------------------

    def _folders(self, wanted: str | None) -> Iterator[tuple[str, ...]]:
        with _failing("list", self.uri):
            for schema in [wanted] if wanted is not None else _valid_names(self.uri):
                for table in _valid_names(f"{self.uri}/{schema}"):
                    yield schema, table

    def _prefixes(self, wanted: str | None) -> Iterator[tuple[str, ...]]:
        """After each table, the list goes on behind the last name that its objects can have."""
        after = f"{wanted}/" if wanted is not None else "!"
        while page := next(self._store.files.list("", start_after=after), None):
            for name in (each.name for each in page):
                schema, _, rest = name.partition("/")
                table, _, inside = rest.partition("/")
                if wanted is not None and schema != wanted:
                    return
                if name <= after:
                    continue
                if inside and _are_valid(schema, table):
                    yield schema, table
                after = f"{schema}/{table}/{_LAST}" if inside else name

    def _delete_objects(self, parts: tuple[str, ...]) -> None:
        if not delete_table_files(open_store(self._path(parts), self._options, self._provider)):
            raise _absent(name_text(parts), self.uri)


def delete_table_files(store: TableStore) -> bool:
    """Delete all of a table, and return whether there was a file.

    The log goes first, so a drop that was broken off leaves no table; dropping again goes on. Raises StorageError.
    """
    found = False
    for folder in (_LOG, ""):
        for page in store.files.list(folder):
            store.files.delete_many([meta.name for meta in page])
            found = True
    return found


def _valid_names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if _are_valid(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _are_valid(*names: str) -> bool:
    with suppress(InvalidInputError):
        return all(name_parts(backquoted(name), 1, takes_dots=True) == (name,) for name in names)
    return False


def _absent(name: str, uri: str) -> TableNotFoundError:
    return TableNotFoundError(f"there is no table {name} in this catalog", table=uri)


def _taken(name: str, uri: str) -> TableExistsError:
    return TableExistsError(f"there is already a table {name} in this catalog", table=uri)


@contextmanager
def _failing(verb: str, path: str) -> Iterator[None]:
    """Turns an OSError of the block into a StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"could not {verb}: {error.strerror or error}", table=path) from error
