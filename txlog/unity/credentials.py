"""Short-lived storage credentials of a table, which its catalog gives out.

In: a table and a catalog. Out: a provider as obstore takes them, which asks for new credentials at 80 % of their life,
and at once when a store refused them. It crosses to tasks in other processes, without the token and without the
credentials: there it asks for its own. Unity Catalog, "ManagedTablesSpec.md", "Get Table Credentials".
"""

from __future__ import annotations

from typing import Any

from txlog.errors import AccessError, StorageError, TableNotFoundError
from txlog.extend.catalogs import ambient, argument, new_lock
from txlog.unity.client import FullTableName, UnityClient
from txlog.unity.messages import Credentials, LoadedTable, StorageCredential

_USED_SHARE = 0.8
"""Of the life of credentials, so that a request that begins with them ends with them."""

_UNTOLD_LIFE_MS = 600_000
"""Of credentials that do not say when they end."""

_NAMES = {
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "token",
    "azure.sas-token": "sas_token",
    "gcs.oauth-token": "token",
}
"""The client's names."""


def is_vended(location: str) -> bool:
    """Whether a catalog gives out credentials for such a location: not for a local disk."""
    return not location.startswith(("file:", "/"))


class VendedCredentials:
    """A credential provider for one table. Thread-safe."""

    crosses_processes = True
    """It may be pickled with the stores that use it: it holds no secret of its own."""

    def __init__(
        self, client: UnityClient, name: FullTableName, table_id: str, location: str, is_staged: bool = False
    ) -> None:
        """``is_staged``: the table was not made yet, so it may have no name."""
        self._client, self._name, self._table_id, self._location = client, name, table_id, location
        self._is_staged = is_staged
        self._lock = new_lock()
        self._current: StorageCredential | None = None
        self._renewed_at_ms = 0
        self._operation = "READ_WRITE"

    def __reduce__(self) -> tuple[Any, ...]:
        return (VendedCredentials, (self._client, self._name, self._table_id, self._location, self._is_staged))

    def __call__(self) -> dict[str, Any]:
        """The credentials under the client's names. Raises AccessError, StorageError, TableNotFoundError."""
        with self._lock:
            if self._current is None or ambient.now_ms() >= self._renewed_at_ms:
                now_ms = ambient.now_ms()
                self._current = self._asked()
                ends_at_ms = self._current.expiration_time_ms
                life_ms = _UNTOLD_LIFE_MS if ends_at_ms is None else ends_at_ms - now_ms
                self._renewed_at_ms = now_ms + int(life_ms * _USED_SHARE)
            found = {_NAMES[key]: value for key, value in self._current.config.items() if key in _NAMES and value}
            # The client keeps credentials until they expire; it is to ask each time, and gets the same ones until then.
            return {**found, "expires_at": ambient.now()}

    def renew(self) -> None:
        """A store has refused the credentials: ask for new ones next time."""
        with self._lock:
            self._current = None

    def _asked(self) -> StorageCredential:
        try:
            self._require_same_table()
            answer = self._for_table()
        except TableNotFoundError:
            if not self._is_staged:
                raise
            answer = self._client.get(f"/delta/v1/staging-tables/{self._table_id}/credentials", Credentials)
        place = f"{self._location}/"
        matching = [each for each in answer.storage_credentials if place.startswith(f"{each.prefix.rstrip('/')}/")]
        if not matching:
            raise StorageError(
                f"the catalog gives out no credentials for {self._location}: pass {argument('storage_options')} or a"
                f" {argument('credential_provider')} of your own"
            )
        return max(matching, key=lambda each: len(each.prefix))

    def _for_table(self) -> Credentials:
        path = f"{self._name.path}/credentials"
        try:
            return self._client.get(path, Credentials, operation=self._operation)
        except AccessError as error:
            if error.reason != "forbidden" or self._operation == "READ":
                raise
        self._operation = "READ"  # the user may read: a write is then refused by the store
        return self._client.get(path, Credentials, operation=self._operation)

    def _require_same_table(self) -> None:
        """Credentials are asked for by name, and the name may be another table's by now."""
        found = self._client.get(self._name.path, LoadedTable).metadata.table_uuid
        if found != self._table_id:
            raise TableNotFoundError(f"{self._name} now names another table, so this one can no longer be read")
