"""Where a URI of an object store points to: its cloud, bucket and prefix.

In: the URI of a table. Out: a `Location`.
"""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urlsplit

from txlog.core.format.paths import is_plain_path
from txlog.core.store._object_client import Location
from txlog.core.store._options import StorageKind
from txlog.errors import InvalidInputError

CLOUDS = {
    "s3": StorageKind.S3,
    "s3a": StorageKind.S3,
    "gs": StorageKind.GCS,
    "gcs": StorageKind.GCS,
    "az": StorageKind.AZURE,
    "azure": StorageKind.AZURE,
    "abfs": StorageKind.AZURE,
    "abfss": StorageKind.AZURE,
}
"""The cloud by the URI's scheme."""


def cloud_location(uri: str) -> Location:
    """Where a URI with a scheme points to. Raises InvalidInputError, which shows no password in it."""
    scheme = uri.partition(":")[0].lower()
    cloud = CLOUDS.get(scheme)
    if cloud is None:
        raise InvalidInputError(
            f"{scheme}: is not a supported location. Use a local path, file:, s3://, s3a://, gs://, az://, "
            f"abfs:// or abfss://, or install the package that offers {scheme}:// (an entry point of txlog.catalogs)."
        )
    parts = split_uri(uri)
    if parts.query or parts.fragment:
        raise InvalidInputError(
            f"a {scheme}:// location cannot have a query (?) or a fragment (#): pass tokens and other settings as"
            " storage_options"
        )
    bucket = parts.netloc
    config: tuple[tuple[str, str], ...] = ()
    if cloud is StorageKind.AZURE and "@" in parts.netloc:
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


def refuse_other_form(text: str) -> None:
    """Refuse the address of a table that another program would take, and no store here: as a local path it would be a
    new folder of that name. Raises InvalidInputError with the form to use, without a password or token in it."""
    found = _other_form(text)
    if found is None:
        return
    what, use = found
    local = "" if "://" in text else ". A local folder of that very name is written with ./ in front of it"
    raise InvalidInputError(f"{what}: {use}{local}")


def _other_form(text: str) -> tuple[str, str] | None:
    """What the address is, and what to use instead; None if it is an address that a store takes."""
    scheme, colon, rest = text.strip().partition(":")
    scheme = scheme.lower()
    if text[:2] == "\\\\" or (len(scheme) == 1 and scheme.isalpha() and rest[:1] in ("\\", "/")):
        return "this is a path of Windows, and txlog runs on Linux and macOS", (
            f"in WSL use /mnt/{scheme}{rest.replace(chr(92), '/')}" if colon else "mount the share, and use its path"
        )
    if scheme == "arn":
        return "this is the name of an AWS resource, not an address", f"use {_of_arn(rest)}"
    if scheme == "dbfs":
        path = "/" + rest.lstrip("/")
        return "dbfs: is an address that only Databricks knows", (
            f"there, use the path {path if path.startswith('/Volumes/') else '/dbfs' + path}; elsewhere, the address of"
            " the bucket behind it"
        )
    if scheme in ("wasb", "wasbs", "adl"):
        return f"{scheme}:// is an older address of Azure", f"use {_of_wasb(rest)}"
    if scheme in ("http", "https"):
        return f"{scheme}: is not an address that a table is written at", _of_web(rest)
    if scheme == "minio":
        return "minio:// is not an address of a store", (
            "use s3://bucket/path, and the server's address as the storage option endpoint_url"
        )
    if scheme == "s3n":
        return "s3n:// is an older address of S3", f"use s3:{rest}" if "@" not in rest else "use s3://bucket/path"
    slashes = "/" if scheme == "file" else "//"
    if scheme in (*CLOUDS, "file") and not (rest.startswith(slashes) and text == text.strip()):
        example = "file:///path" if scheme == "file" else f"{scheme}://bucket/path"
        return (
            f"this is not an address that begins with {scheme}:{slashes}",
            f"write {example}, without spaces around it",
        )
    return None


def _of_arn(rest: str) -> str:
    resource = rest.split(":", 4)[-1]
    is_bucket = rest.split(":")[1:2] == ["s3"] and not resource.startswith("accesspoint")
    return f"s3://{resource}" if is_bucket else "s3:// and the name of the bucket, or the alias of the access point"


def _of_wasb(rest: str) -> str:
    container, at, host = rest.lstrip("/").partition("?")[0].partition("@")
    account, _, after = host.partition(".")
    path = after.partition("/")[2]
    if not at:
        return "abfss://container@account.dfs.core.windows.net/path"
    return f"abfss://{container}@{account}.dfs.core.windows.net/{path}".rstrip("/")


def _of_web(rest: str) -> str:
    """The same place as an address of its cloud, for the hosts of the three clouds."""
    try:
        parts = urlsplit(f"https:{rest}")
        host = (parts.hostname or "").lower()
    except ValueError:
        return _ANY_FORM
    first, _, below = parts.path.strip("/").partition("/")
    name, _, domain = host.partition(".")
    if domain.startswith(("dfs.", "blob.")) and first:
        service = domain.replace("blob.", "dfs.", 1) if domain.startswith("blob.") else domain
        return f"use abfss://{first}@{name}.{service}/{below}".rstrip("/")
    if host.endswith(".amazonaws.com") or host.endswith(".amazonaws.com.cn"):
        bucket, dot, _ = host.partition(".s3")
        return f"use s3://{parts.path.strip('/') if not dot else bucket + parts.path}".rstrip("/")
    if host in ("storage.googleapis.com", "storage.cloud.google.com"):
        return f"use gs://{parts.path.strip('/')}"
    return _ANY_FORM


_ANY_FORM = (
    "use s3://, gs:// or abfss:// with the name of the bucket or container, and the server's address as the storage"
    " option endpoint_url"
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
