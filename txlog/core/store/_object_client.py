"""The client of one table's location in an object store. It never hangs and never shows a secret.

In: a `Location`, its options and perhaps a credential provider. Out: the answer of one request, or a TxlogError. Each
process builds its own client. The client's runtime does not survive a fork (a request in the child would wait forever),
so a process forked after the first use is refused. Pickling a client drops its secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import obstore.store

from txlog.core.store._options import StorageKind, StorageOptions, environment_secrets, redact
from txlog.core.store._retry import read_again
from txlog.core.wording import advice
from txlog.errors import AccessError, InvalidInputError, NotFoundError, StorageError

if TYPE_CHECKING:
    from txlog.core.store._refusals import ErrorResponse

_READ_RETRIES = 5
_OWN_CREDENTIALS = "pass them in the environment or in storage_options (docs/storage.md), or pass a credential_provider"
_READ_RETRY_TIMEOUT = timedelta(seconds=60)

T = TypeVar("T")

# The process whose runtime made a request; the client library keeps one per process, so this is global too.
_runtime_process_id: int | None = None


class Location(msgspec.Struct, frozen=True):
    """Where a table is. ``prefix`` is the decoded key of its root, without slashes around it.

    ``config`` is what the URI itself tells the client, such as the account of an Azure container.
    """

    cloud: StorageKind
    uri: str
    bucket: str
    prefix: str
    config: tuple[tuple[str, str], ...] = ()


class ObjectClient:
    """Requests to one location. Thread-safe."""

    def __init__(
        self,
        location: Location,
        options: StorageOptions,
        credential_provider: Callable[[], Any] | None = None,
        left_behind: tuple[str, ...] = (),
    ) -> None:
        self.location = location
        self._options = options
        self._credential_provider = credential_provider
        self._left_behind = left_behind
        self._stores: dict[bool, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        left_behind = set(self._left_behind) | set(self._options.secret_names())
        provider = self._credential_provider
        if provider is not None and not getattr(provider, "crosses_processes", False):
            left_behind.add("credential_provider")
            provider = None
        return (ObjectClient, (self.location, self._options.without_secrets(), provider, tuple(sorted(left_behind))))

    def at(self, location: Location) -> ObjectClient:
        """A client of another location: with the same options and credentials on the same cloud, else with those of the
        environment."""
        if location.cloud is not self.location.cloud:
            return ObjectClient(location, StorageOptions())
        return ObjectClient(location, self._options, self._credential_provider, self._left_behind)

    def validate(self) -> None:
        """Build the client, so a bad option is reported early. Raises InvalidInputError."""
        self._store(repeats=True)

    def run(self, action: str, path: str, request: Callable[[Any], T]) -> T:
        """Run ``request`` with the client's own retries, and retry it here if an answer breaks off.

        Raises NotFoundError, AccessError, StorageError.
        """
        store = self._enter(repeats=True)
        try:
            return self._with_renewed(lambda: read_again(lambda: request(store), _is_transient))
        except BaseException as error:
            failure = self.translated(action, path, error)
        # Raised outside the handler, so it has no context: the client's own message may hold a secret.
        raise failure

    def send_once(self, request: Callable[[Any], T]) -> T:
        """Run ``request`` without retries, except after refused credentials. Raises what the client raises."""
        store = self._enter(repeats=False)
        return self._with_renewed(lambda: request(store))

    def _with_renewed(self, request: Callable[[], T]) -> T:
        """Run ``request``; if its credentials are refused, once more with new ones. The store has done nothing then."""
        renew: Callable[[], None] | None = getattr(self._credential_provider, "renew", None)
        try:
            return request()
        except Exception as error:
            if renew is None or not _is_about_access(error):
                raise
        renew()
        return request()

    def store_for_upload(self) -> Any:
        """The client's own store object, for an upload that retries its parts by itself."""
        return self._enter(repeats=True)

    def translated(self, action: str, path: str, error: BaseException) -> BaseException:
        """The typed error for ``error``; interrupts and txlog's own errors are returned unchanged."""
        if not (isinstance(error, Exception) or is_panic(error)) or isinstance(error, (StorageError, NotFoundError)):
            return error
        if isinstance(error, FileNotFoundError) and action != "write":
            return NotFoundError(f"{path} does not exist", table=self.location.uri, path=path)
        answer = answer_of(error)
        refused = answer is not None and answer.meaning == "refused"
        shown = self.shown(error).rstrip(".")
        is_of_abort = action == "write" and _OF_ABORT in str(error)
        if is_of_abort:
            shown = f"the upload failed, and the client says only why its abort failed, too: {shown}"
        message = f"could not {action} {path}: {shown}"
        if refused and action == "write":
            message += ". Nothing was written"
        reason = (answer.reason if answer is not None else "") or ("wrong" if _lacks_credentials(error) else "")
        if is_of_abort and reason == "forbidden":  # so the abort is, and the upload may have failed for another reason
            message += self._hint(error, answer, _ABORTABLE)
            return StorageError(message, table=self.location.uri, path=path)
        message += self._hint(error, answer)
        if reason:
            return AccessError(message, table=self.location.uri, path=path, reason=reason)
        return StorageError(message, table=self.location.uri, path=path)

    def shown(self, error: BaseException) -> str:
        """The first line of the client's message without secrets, with the code and message from the server's answer.

        S3 repeats a bad token in its answer, and Azure everything that a bad signature signed.
        """
        from txlog.core.store._refusals import words_of

        text = words_of(_text_of(error))
        first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
        return redact(first, (*self._options.secrets(), *environment_secrets()))[:500]

    def _hint(self, error: BaseException, answer: ErrorResponse | None, advised: str = "") -> str:
        """What to do next; ``advised`` goes before the advice of the answer."""
        if self._left_behind:
            return (
                f". {', '.join(self._left_behind)} was not sent with this table to another process, since secrets are "
                "never pickled. Give that process its own credentials (environment variables or an instance role)."
            )
        if _INSTANCE_ROLE.search(str(error)):
            return (
                ". There are no credentials, and the machine has none of its own:"
                f" {advice('own credentials', _OWN_CREDENTIALS)}."
            )
        if advised:
            return f". {advised}"
        if answer is not None:
            return f". {answer.advice}"
        if _lacks_credentials(error):
            return ". Check the credentials and their permissions, then run it again."
        if "builder error" in str(error) or "InvalidUri" in str(error):
            return (
                ". The endpoint URL is not allowed: it must begin with https://, or with http:// if the storage option"
                " allow_http is true, as for a server on this machine."
            )
        return ". Check the endpoint and the network, then run it again."

    def _enter(self, *, repeats: bool) -> Any:
        global _runtime_process_id
        process_id = os.getpid()
        if _runtime_process_id is None:
            _runtime_process_id = process_id
        if _runtime_process_id != process_id:
            raise StorageError(
                "this process was forked from one that had already used an object store, and the client does not "
                "survive a fork. Start workers with the 'spawn' or 'forkserver' method, or fork before the first use.",
                table=self.location.uri,
            )
        return self._store(repeats=repeats)

    def _store(self, *, repeats: bool) -> Any:
        store = self._stores.get(repeats)
        if store is None:
            # Two threads may both build one: harmless, and a lock could be copied locked into a forked child.
            store = self._stores.setdefault(repeats, self._build(repeats=repeats))
        return store

    def _build(self, *, repeats: bool) -> Any:
        classes = {
            StorageKind.S3: obstore.store.S3Store,
            StorageKind.AZURE: obstore.store.AzureStore,
            StorageKind.GCS: obstore.store.GCSStore,
        }
        try:
            return classes[self.location.cloud](
                self.location.bucket,
                prefix=self.location.prefix or None,
                config=self._config(),
                client_options=dict(self._options.client),
                retry_config=self._retry_config(repeats=repeats),
                credential_provider=self._credential_provider,
            )
        except BaseException as error:
            if not (isinstance(error, Exception) or is_panic(error)):
                raise
            shown = self.shown(error)
        raise InvalidInputError(
            f"the client refuses these storage_options: {shown}. docs/storage.md lists the supported keys",
            table=self.location.uri,
        )

    def _config(self) -> dict[str, str]:
        config = dict(self._options.config)
        for name, value in self.location.config:
            config.setdefault(name, value)
        if self.location.cloud is StorageKind.S3:
            # Deletes names one at a time; several S3-compatible servers lack the bulk call.
            config.setdefault("disable_bulk_delete", "true")
        return config

    def _retry_config(self, *, repeats: bool) -> dict[str, Any]:
        if not repeats:
            return {"max_retries": 0}
        retries = self._options.max_retries
        return {
            "max_retries": _READ_RETRIES if retries is None else retries,
            "retry_timeout": self._options.retry_timeout or _READ_RETRY_TIMEOUT,
        }


_OF_ABORT = "Error performing DELETE"
"""In the client's error for an upload in parts: it aborts an upload that failed, and forgets why if that fails, too."""
_ABORTABLE = (
    "Give these credentials the right to abort uploads (s3:AbortMultipartUpload and s3:DeleteObject, or what your store"
    " calls them), and run it again: the error then says why the upload fails. A rule of the bucket for incomplete"
    " uploads removes the parts that stay."
)

_INSTANCE_ROLE = re.compile(r"/latest/(api/token|meta-data)|/metadata/identity|/computeMetadata/")


def answer_of(error: BaseException) -> ErrorResponse | None:
    """The store's answer in an error of the client; None if it did not answer."""
    from txlog.core.store._refusals import answer_in

    return answer_in(_text_of(error))


def is_panic(error: BaseException) -> bool:
    """True for a panic of the client's native code, which is not an `Exception`."""
    return type(error).__module__ == "pyo3_runtime"


def _text_of(error: BaseException) -> str:
    return str(error).split("\n\nDebug source", 1)[0].strip()


def _lacks_credentials(error: BaseException) -> bool:
    return type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")


def _is_about_access(error: BaseException) -> bool:
    """Whether the store refused these credentials: others may be accepted."""
    if _lacks_credentials(error):
        return True
    answer = answer_of(error)
    return answer is not None and answer.meaning == "refused" and bool(answer.reason)


def _is_transient(error: BaseException) -> bool:
    """Whether a repeat may succeed. The client calls many refusals "generic"."""
    if type(error).__name__ not in ("GenericError", "JoinError") and not is_panic(error):
        return False
    answer = answer_of(error)
    return answer is None or answer.meaning in ("busy", "unsent")
