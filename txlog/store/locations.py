"""Where a URI of an object store points to: its cloud, bucket and prefix.

In: the URI of a table. Out: a `Location`.
"""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urlsplit

from txlog.errors import InvalidInputError
from txlog.protocol.paths import is_plain_path
from txlog.store.object_client import Location
from txlog.store.options import Cloud

__all__ = ["CLOUDS", "cloud_location", "split_uri"]

CLOUDS = {
    "s3": Cloud.S3,
    "s3a": Cloud.S3,
    "gs": Cloud.GCS,
    "gcs": Cloud.GCS,
    "az": Cloud.AZURE,
    "azure": Cloud.AZURE,
    "abfs": Cloud.AZURE,
    "abfss": Cloud.AZURE,
}
"""The cloud by the URI's scheme."""


def cloud_location(uri: str) -> Location:
    """Where a URI with a scheme points to. Raises InvalidInputError, which shows no password in it."""
    scheme = uri.partition(":")[0].lower()
    cloud = CLOUDS.get(scheme)
    if cloud is None:
        raise InvalidInputError(
            f"{scheme}: is not a supported location. Use a local path, file:, s3://, s3a://, gs://, az://, "
            "abfs:// or abfss://."
        )
    parts = split_uri(uri)
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
    if prefix and not is_plain_path(prefix):
        raise InvalidInputError(
            f"the path {prefix!r} after {scheme}:// has an empty, '.' or '..' part, or a control character"
        )
    return Location(
        cloud=cloud,
        uri=f"{scheme}://{parts.netloc}/{prefix}".rstrip("/"),
        bucket=bucket,
        prefix=prefix,
        config=config,
    )


def split_uri(uri: str) -> SplitResult:
    """The parts of a URI. Raises InvalidInputError, which does not repeat it."""
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
