"""Opens the stores of a table from its URI.

In: a path, `file:`, `s3://`, `s3a://`, `gs://`, `az://`, `abfs://` or `abfss://` URI, with `storage_options`.
Out: a `TableStore` whose ``uri`` is built from the parsed parts alone, so it can be shown anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from txlog.errors import InvalidInputError
from txlog.store.local import local_table_store
from txlog.store.table_store import TableStore
from txlog.util.arguments import invalid, type_name_of
from txlog.util.patterns import pattern

if TYPE_CHECKING:
    from txlog.store.object_client import Location
    from txlog.store.options import Cloud

__all__ = ["open_store"]

_SCHEME = pattern(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_CLOUDS = {
    "s3": "S3",
    "s3a": "S3",
    "gs": "GCS",
    "gcs": "GCS",
    "az": "AZURE",
    "azure": "AZURE",
    "abfs": "AZURE",
    "abfss": "AZURE",
}
"""The member of `Cloud` by the URI's scheme."""


def open_store(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    credential_provider: Callable[[], Any] | None = None,
) -> TableStore:
    """The stores of the table at ``uri``, which need not exist yet. Makes no request.

    ``credential_provider`` is an obstore provider (profiles, assumed roles, expiring tokens). Raises
    InvalidInputError for a URI or an option that cannot be used.
    """
    try:
        text = os.fspath(uri)
    except TypeError:
        raise InvalidInputError(
            f"Invalid table location of type {type_name_of(uri)}: expected a path or a URI, as the first argument"
        ) from None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise invalid("table location", text, "a path or a URI")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid("table location", text, "a string that UTF-8 can encode") from None
    if "_delta_log" in text.split("/"):
        raise InvalidInputError("a table's location is the folder that contains _delta_log, not _delta_log itself")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else "file"
    if scheme == "file" and storage_options is None:  # as in most calls: the options module is slow to import
        return local_table_store(_local_path(text) if match else _from_home(text))
    from txlog.store.options import Cloud, parse_options

    if scheme == "file":
        parse_options(storage_options, Cloud.LOCAL)
        return local_table_store(_local_path(text) if match else _from_home(text))
    if scheme not in _CLOUDS:
        raise InvalidInputError(
            f"{scheme}: is not a supported location. Use a local path, file:, s3://, s3a://, gs://, az://, "
            "abfs:// or abfss://."
        )
    from txlog.store.object_store import object_table_store

    cloud = Cloud[_CLOUDS[scheme]]
    return object_table_store(
        _location(cloud, scheme, text), parse_options(storage_options, cloud), credential_provider
    )


def _from_home(path: str) -> str:
    """Expand ``~/t`` to a path below the home directory; ``./~`` is a folder named ``~``."""
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


def _local_path(uri: str) -> str:
    parts = _split(uri)
    if parts.netloc not in ("", "localhost"):
        raise InvalidInputError(
            f"a file: URI names a path on this machine, not on {parts.hostname!r}: use file:///path"
        )
    if parts.query or parts.fragment:
        raise InvalidInputError("a file: URI has no query and no fragment; write '?' as %3F and '#' as %23")
    return unquote(parts.path)


def _location(cloud: Cloud, scheme: str, uri: str) -> Location:
    from txlog.store.object_client import Location
    from txlog.store.options import Cloud

    parts = _split(uri)
    if parts.query or parts.fragment:
        raise InvalidInputError(
            f"{scheme}:// takes no query and no fragment: pass tokens and other settings as storage_options"
        )
    bucket = parts.netloc
    config: tuple[tuple[str, str], ...] = ()
    if cloud is Cloud.AZURE and "@" in parts.netloc:
        bucket, _, host = parts.netloc.partition("@")
        config = _azure_host(host)
    if not bucket or "@" in bucket or ":" in bucket:
        raise InvalidInputError(
            f"{scheme}:// is followed by a bucket or container, never by a user, a password or a port: "
            f"{scheme}://bucket/path/to/table. Pass credentials as storage_options or credential_provider."
        )
    prefix = unquote(parts.path).strip("/")
    if prefix and any(part in ("", ".", "..") or not part.isprintable() for part in prefix.split("/")):
        raise InvalidInputError(f"the path {prefix!r} after {scheme}:// has an empty, '.', '..' or unprintable part")
    return Location(
        cloud=cloud,
        uri=f"{scheme}://{parts.netloc}/{prefix}".rstrip("/"),
        bucket=bucket,
        prefix=prefix,
        config=config,
    )


def _split(uri: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
        _ = parts.hostname
        return parts
    except ValueError:
        pass  # Python's message repeats the URI, which may hold a password
    raise InvalidInputError("the host or bucket of the table's URI is not valid: check its spelling")


def _azure_host(host: str) -> tuple[tuple[str, str], ...]:
    """What `container@account.dfs.core.windows.net` says about the client; other clouds of Azure have other domains."""
    account, _, domain = host.partition(".")
    service, _, cloud = domain.partition(".")
    if not account or service not in ("dfs", "blob") or not cloud:
        raise InvalidInputError(
            "an Azure URI is abfss://container@account.dfs.core.windows.net/path, or az://container/path with "
            "account_name in storage_options"
        )
    if cloud == "fabric.microsoft.com":
        return (("account_name", account), ("use_fabric_endpoint", "true"))
    if cloud == "core.windows.net":
        return (("account_name", account),)
    return (("account_name", account), ("endpoint", f"https://{account}.blob.{cloud}"))
