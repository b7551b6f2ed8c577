"""A table's entry in an Iceberg catalog: creates it, and updates it to the newest metadata file. Needs pyiceberg.

In: an entry's name, ``catalog.namespace.table``, and the location of the newest metadata file. Out: an entry that names
this file. PyIceberg's own configuration (``~/.pyiceberg.yaml``, ``PYICEBERG_CATALOG__...``) has the catalog's address.
An entry that names a newer file, or one that txlog did not write, is left as it is. Only a SQL catalog can compare and
set in one step: in others, two concurrent updates may leave the older file, so `follow` checks again.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

from txlog.core.format.properties import validate
from txlog.core.util import how_to_install
from txlog.core.whole_import import import_whole
from txlog.errors import IcebergExportError, InvalidInputError, StorageError, TxlogError
from txlog.iceberg.metadata.names import metadata_number
from txlog.iceberg.metadata.properties import ICEBERG_CATALOG

_ATTEMPTS = 5


def import_client(entry: str) -> None:
    """Import what `move_entry` needs for this entry, if it is installed: the library's threads import nothing."""
    with suppress(ImportError):
        import_whole("pyiceberg.catalog", "pyiceberg.io.pyarrow", "pyiceberg.utils.config")
        from pyiceberg.utils.config import Config

        configured = Config().get_catalog_config(entry.partition(".")[0]) or {}
        kinds = {"rest", "sql", str(configured.get("type", "rest")).lower()}
        for kind in sorted(kinds & {"rest", "sql", "glue", "hive"}):
            with suppress(ImportError):
                import_whole(f"pyiceberg.catalog.{kind}")


def move_entry(entry: str, metadata_location: str) -> bool:
    """Point the catalog's entry to this metadata file, unless it names a newer one; create it if it is absent.

    Args:
        entry: ``catalog.namespace.table``; a namespace may have several parts.
        metadata_location: The URI of a ``vN.metadata.json`` that an export has put.

    Returns:
        Whether the entry was changed.

    Raises:
        InvalidInputError: The name is not of this form, pyiceberg is not installed, or the catalog is not configured.
        IcebergExportError: The entry belongs to another table or was changed by another Iceberg writer.
        StorageError: The catalog does not answer, or refuses.
    """
    opened = _opened(entry)
    try:
        with closing(opened.catalog):
            for _ in range(_ATTEMPTS):
                moved = _move(opened, metadata_location)
                if moved is not None:
                    return moved
    except TxlogError:
        raise
    except Exception as error:  # catalogs raise their own errors: of their client, server or database
        raise StorageError(_unmoved(entry, metadata_location, str(error) or type(error).__name__)) from error
    raise StorageError(_unmoved(entry, metadata_location, f"other writers changed it first, {_ATTEMPTS} times"))


def _unmoved(entry: str, metadata_location: str, why: str) -> str:
    return (
        f"the entry {entry} of the Iceberg catalog could not be updated to {metadata_location}: {why}. The metadata"
        " there is safe, and readers without the catalog see it. Once the catalog answers, the next export updates the"
        f" entry, or now `txlog iceberg URI --register {entry}`"
    )


def _move(entry: _Entry, location: str) -> bool | None:
    """Whether the entry was changed; None if another program changed it at the same time."""
    current = entry.location()
    if current is None:
        return entry.create(location)
    if entry.number(current, location) >= entry.number(location, location):
        return False
    return entry.replace(current, location)


class _Entry:
    """An entry of any kind of catalog, through PyIceberg's common interface."""

    def __init__(self, catalog: Any, name: str, identifier: tuple[str, ...]) -> None:
        self.catalog = catalog
        self.name = name
        self.identifier = identifier

    def number(self, location: str, ours: str) -> int:
        """N of the ``vN.metadata.json`` at ``location``, which must be next to ``ours``."""
        folder, _, name = location.rpartition("/")
        number = metadata_number(name)
        if number is None or folder != ours.rpartition("/")[0]:
            raise IcebergExportError(
                f"the entry {self.name} of the Iceberg catalog names {location}, which txlog did not write for this"
                " table: another Iceberg writer committed to it, or it is another table, or this one has moved. Drop"
                " the entry without purging its files, and register the table again"
            )
        return number

    def location(self) -> str | None:
        """The metadata file that the entry names; None if there is no entry."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return str(self.catalog.load_table(self.identifier).metadata_location)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def create(self, location: str) -> bool | None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        namespace = self.identifier[:-1]
        try:
            self.catalog.create_namespace_if_not_exists(namespace)
        except Exception:  # by another program at the same time: a SQL catalog then raises its database's error
            if not self.catalog.namespace_exists(namespace):
                raise
        try:
            self.catalog.register_table(self.identifier, location)
        except TableAlreadyExistsError:
            return None
        return True

    def replace(self, current: str, location: str) -> bool | None:
        """Overwrite the entry. If the catalog cannot, drop and create it: readers then miss it for a moment."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        try:
            self.catalog.register_table(self.identifier, location, overwrite=True)
        except (NotImplementedError, TableAlreadyExistsError):
            self.catalog.drop_table(self.identifier)
            return self.create(location)
        return True


class _SqlEntry(_Entry):
    """An entry of a SQL catalog, a row of the table that all of Iceberg's SQL and JDBC catalogs share.

    The row is compared and set in one step, and is read without opening the file that it names.
    """

    def location(self) -> str | None:
        from sqlalchemy import text

        query = f"select metadata_location from iceberg_tables where {_THIS_ROW}"
        with self.catalog.engine.connect() as connection:
            found = connection.execute(text(query), self._row()).scalar()
        return None if found is None else str(found)

    def replace(self, current: str, location: str) -> bool | None:
        from sqlalchemy import text

        change = (
            "update iceberg_tables set metadata_location = :new, previous_metadata_location = :old"
            f" where {_THIS_ROW} and metadata_location = :old"
        )
        with self.catalog.engine.begin() as connection:
            result = connection.execute(text(change), {**self._row(), "new": location, "old": current})
            return True if result.rowcount == 1 else None

    def _row(self) -> dict[str, str]:
        *namespace, table = self.identifier
        return {"catalog": self.catalog.name, "namespace": ".".join(namespace), "table": table}


_THIS_ROW = "catalog_name = :catalog and table_namespace = :namespace and table_name = :table"


def _opened(name: str) -> _Entry:
    catalog_name, *identifier = validate({ICEBERG_CATALOG: name})[ICEBERG_CATALOG].split(".")
    import_client(name)
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise InvalidInputError(
            f"{name} is in an Iceberg catalog, which txlog accesses through pyiceberg, and that is not installed:"
            f" {how_to_install('iceberg')}"
        ) from error
    try:
        catalog = load_catalog(catalog_name)
    except Exception as error:
        raise InvalidInputError(
            f"{name}: the Iceberg catalog {catalog_name!r} cannot be opened: {error}. Set the catalog's address in"
            " PyIceberg's configuration (~/.pyiceberg.yaml, or variables PYICEBERG_CATALOG__...)"
        ) from error
    is_sql = any(each.__name__ == "SqlCatalog" for each in type(catalog).__mro__)
    kind = _SqlEntry if is_sql else _Entry
    return kind(catalog, name, tuple(identifier))
