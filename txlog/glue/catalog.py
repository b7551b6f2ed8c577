"""AWS Glue's Data Catalog, which Athena, EMR and Redshift share: ``schema.table`` is a table of a Glue database.

In: ``glue://``, or ``glue://<account>`` for another account's catalog, in the region and with the credentials that
boto3 finds, or those in the storage options. Out: a `TableCatalog`. Tables that Spark, Athena or a crawler registered
are found. What txlog creates is marked as Hive marks tables whose files belong to them, and a drop then deletes these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from txlog.errors import InvalidInputError, StorageError, TableExistsError, TableNotFoundError, UnsupportedFeatureError
from txlog.extend.catalogs import (
    CatalogScheme,
    TablePlace,
    Token,
    delete_table_files,
    environment_secrets,
    how_to_install,
    name_parts,
    name_text,
    open_store,
    redact,
    require_no_token,
)

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    raise InvalidInputError(f"Glue is reached by boto3, which is not installed: {how_to_install('glue')}") from None

Made = TypeVar("Made")
_DEFAULT = ("default",)
_OWNS_FILES = "external.table.purge"
_SESSION = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "token": "aws_session_token",
    "region": "region_name",
    "default_region": "region_name",
}


class GlueCatalog:
    """The Delta tables of one Glue catalog."""

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
    ) -> None:
        account = uri.partition("://")[2].strip("/")
        self.uri = f"glue://{account}"
        self._options = storage_options
        self._provider = credential_provider
        self._account = {"CatalogId": account} if account else {}
        given = {key.lower().removeprefix("aws_"): value for key, value in (storage_options or {}).items()}
        session = {_SESSION[key]: value for key, value in given.items() if key in _SESSION}
        try:
            self._session = boto3.session.Session(**session)
            self._glue = self._session.client("glue")
        except (BotoCoreError, ValueError) as error:
            raise InvalidInputError(f"boto3 cannot reach Glue: {error}") from None

    def resolve(self, name: str) -> TablePlace:
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        entry = self._entry(parts)
        if not _is_delta(entry):
            raise InvalidInputError(f"{name_text(parts)} of Glue is not a Delta table", table=self.uri)
        return self._place(parts, _location(entry))

    def tables(self, schema: str | None = None) -> list[str]:
        if schema is None:
            schemas = [each["Name"] for each in self._pages("get_databases", "DatabaseList")]
        else:
            schemas = list(name_parts(schema, 1, is_schema=True, takes_dots=True))
        found = []
        for each in schemas:
            entries = self._pages("get_tables", "TableList", DatabaseName=each)
            found += [name_text((each, entry["Name"])) for entry in entries if _is_delta(entry)]
        return sorted(found)

    def create(self, name: str, make: Callable[[TablePlace], Made]) -> Made:
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        self._require_free(parts)
        database = self._call("get_database", Name=parts[0])["Database"]
        folder = database.get("LocationUri")
        if not folder:
            raise InvalidInputError(
                f"the Glue database {parts[0]} has no LocationUri, so a new table has no place: set it, or create the"
                " table at a location and register it",
                table=self.uri,
            )
        place = self._place(parts, f"{folder.rstrip('/')}/{parts[1]}")
        made = make(place)
        self._put(parts, place.uri, {_OWNS_FILES: "true"})
        return made

    def require_registrable(self, name: str) -> None:
        name_parts(name, 2, _DEFAULT, takes_dots=True)

    def register(self, name: str, uri: str) -> None:
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        store = open_store(uri, self._options, self._provider)
        if not store.log.list_from(""):
            raise TableNotFoundError("there is no Delta table to register here", table=store.uri)
        self._require_free(parts)
        self._put(parts, store.uri, {})

    def drop(self, name: str) -> None:
        parts = name_parts(name, 2, _DEFAULT, takes_dots=True)
        entry = self._entry(parts)
        self._call("delete_table", DatabaseName=parts[0], Name=parts[1])
        if entry.get("Parameters", {}).get(_OWNS_FILES) == "true" and _is_delta(entry):
            delete_table_files(open_store(_location(entry), self._options, self._provider))

    def rename(self, name: str, to: str) -> None:
        raise UnsupportedFeatureError(
            "Glue cannot rename a table: register it under the new name, then drop the old one"
        )

    # --- entries --------------------------------------------------------------------------------------------------

    def _place(self, parts: tuple[str, ...], location: str) -> TablePlace:
        return TablePlace(location, name_text(parts), self._options, self._provider)

    def _entry(self, parts: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = self._call("get_table", DatabaseName=parts[0], Name=parts[1])["Table"]
        return found

    def _require_free(self, parts: tuple[str, ...]) -> None:
        try:
            self._entry(parts)
        except TableNotFoundError:
            return
        raise TableExistsError(f"there is already a table {name_text(parts)} in this catalog", table=self.uri)

    def _put(self, parts: tuple[str, ...], location: str, parameters: dict[str, str]) -> None:
        """As Spark and Athena describe a Delta table, so both find it."""
        described = {
            "Name": parts[1],
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {
                "EXTERNAL": "TRUE",
                "classification": "delta",
                "table_type": "DELTA",
                "spark.sql.sources.provider": "delta",
                **parameters,
            },
            "StorageDescriptor": {"Columns": [], "Location": location, "SerdeInfo": {"Parameters": {"path": location}}},
        }
        self._call("create_table", DatabaseName=parts[0], TableInput=described)

    def _pages(self, call: str, key: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            page = self._call(call, **arguments, **token)
            yield from page[key]
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def _call(self, call: str, **arguments: Any) -> Any:
        try:
            return getattr(self._glue, call)(**self._account, **arguments)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            kind = {"EntityNotFoundException": TableNotFoundError, "AlreadyExistsException": TableExistsError}
            raise kind.get(code, StorageError)(f"Glue refused {call}: {self._shown(error)}", table=self.uri) from None
        except BotoCoreError as error:
            raise StorageError(f"Glue does not answer {call}: {self._shown(error)}", table=self.uri) from None

    def _shown(self, error: Exception) -> str:
        """The error's text without secrets, which an answer may repeat."""
        found = self._session.get_credentials()
        own = () if found is None else (found.secret_key, found.token)
        return redact(str(error), (*filter(None, own), *environment_secrets()))


def _is_delta(entry: Mapping[str, Any]) -> bool:
    parameters = entry.get("Parameters") or {}
    marks = (parameters.get(key, "") for key in ("table_type", "spark.sql.sources.provider", "classification"))
    return any(mark.lower() == "delta" for mark in marks)


def _location(entry: Mapping[str, Any]) -> str:
    """Spark writes the real place of a table into the parameters of its format."""
    storage = entry.get("StorageDescriptor") or {}
    given = (storage.get("SerdeInfo") or {}).get("Parameters") or {}
    return str(given.get("path") or storage.get("Location"))


def _open(
    uri: str,
    token: Token | None,
    storage_options: Mapping[str, str] | None,
    credential_provider: Callable[[], object] | None,
) -> GlueCatalog:
    require_no_token(token)
    return GlueCatalog(uri, storage_options, credential_provider)


SCHEME = CatalogScheme(opens=_open)
