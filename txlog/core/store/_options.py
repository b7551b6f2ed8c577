"""`storage_options`: the supported keys, what they mean for the client, and which values must never be shown.

In: the dict a caller passes, with the keys that deltalake and polars accept, in any case, with or without the cloud's
prefix. Out: `StorageOptions`, with obstore's keys. An unknown key is refused here, with the nearest known one in the
message: the client would ignore some, fail later on others, and panic on a few.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit, urlunsplit

import msgspec

from txlog.core.util import invalid, logger, repr_without
from txlog.errors import InvalidInputError


class StorageKind(enum.Enum):
    """The kind of storage a table is on, which determines its option keys."""

    LOCAL = "a local disk"
    S3 = "S3"
    AZURE = "Azure"
    GCS = "Google Cloud Storage"


class StorageOptions(msgspec.Struct, frozen=True):
    """Options under the client's own names. ``repr`` shows no value, since any of them may be a secret."""

    config: Mapping[str, str] = msgspec.field(default_factory=dict)
    client: Mapping[str, Any] = msgspec.field(default_factory=dict)
    max_retries: int | None = None
    retry_timeout: timedelta | None = None

    __repr__ = repr_without("config", "client")

    def secrets(self) -> tuple[str, ...]:
        """Every value that must not appear in a message, longest first."""
        return _as_shown(part for name, value in self._items() for part in _secret_parts(name, value))

    def secret_names(self) -> tuple[str, ...]:
        """The options that are secrets, and those whose URL carries one."""
        return tuple(sorted(name for name, value in self._items() if _secret_parts(name, value)))

    def without_secrets(self) -> StorageOptions:
        """The options without secrets, for pickling. URLs stay: without its URL a client would ask another server."""
        return StorageOptions(
            config=_without_secrets(self.config),
            client=_without_secrets(self.client),
            max_retries=self.max_retries,
            retry_timeout=self.retry_timeout,
        )

    def _items(self) -> list[tuple[str, Any]]:
        return [*self.config.items(), *self.client.items()]


def parse_options(options: Mapping[str, Any] | None, cloud: StorageKind) -> StorageOptions:
    """Check and translate ``options`` for a table on ``cloud``. Raises InvalidInputError.

    On a local disk every known key is accepted and none has a meaning.
    """
    config: dict[str, str] = {}
    client: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    if not isinstance(options, Mapping | None):
        raise InvalidInputError(f"Invalid storage_options of type {type(options).__name__}: expected a dict")
    for key, value in (options or {}).items():
        if not isinstance(key, str):
            raise invalid("key in storage_options", key, "a string")
        if value is None:
            continue
        name = _bare(key, cloud)
        _refuse_by_name(name, key, value)
        if cloud is StorageKind.LOCAL and name in _UNSAFE_RENAME:
            continue  # see `allows_unsafe_rename`
        if name in _WITHOUT_EFFECT:
            logger.warning("storage_options: %s is ignored: %s", key, _reason_to_ignore(name))
            continue
        if cloud is StorageKind.LOCAL:
            _check_known_anywhere(key)
        elif (known := _CONFIG[cloud].get(name)) is not None:
            _set_once(config, known, _url(key, value, cloud) if known in _URLS else _text(key, value), key)
        elif name in _CLIENT:
            _set_once(client, name, _client_value(key, name, value), key)
        elif name in _RETRY:
            _set_once(retry, name, _retry_value(key, name, value), key)
        else:
            raise _unknown(key, cloud)
    return StorageOptions(config=config, client=client, **retry)


def without_secrets(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options under the caller's names, for pickling, without those that hold a secret on any cloud."""

    def is_secret(key: str, value: Any) -> bool:
        names = (_CONFIG[cloud].get(_bare(key, cloud)) for cloud in StorageKind)
        return any(_secret_parts(name, value) for name in (key.lower(), *names))

    return {key: value for key, value in (options or {}).items() if not is_secret(key, value)}


def sendable(
    options: Mapping[str, Any] | None, provider: Callable[[], object] | None
) -> tuple[Mapping[str, Any] | None, Callable[[], object] | None]:
    """What a pickle may carry of these: options without secrets, and a provider that is made to cross processes."""
    crosses = getattr(provider, "crosses_processes", False)
    return options and without_secrets(options), provider if crosses else None


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """``text`` without any of ``secrets``, without URL credentials and without signatures."""
    from txlog.core.addresses import without_credentials

    for secret in secrets:
        text = text.replace(secret, "***")
    return without_credentials(text)


def environment_secrets() -> tuple[str, ...]:
    """The values of environment variables that the client reads by itself and that must not appear in a message."""
    found = []
    for variable, value in os.environ.items():
        for cloud, prefixes in _PREFIXES.items():
            if variable.lower().startswith(prefixes):
                found += _secret_parts(_CONFIG[cloud].get(_bare(variable, cloud)), value)
    return _as_shown(found)


def _secret_parts(name: str | None, value: Any) -> list[Any]:
    """The parts of an option that must not be shown: a whole secret, or the password and query values of a URL."""
    if name in _SECRET:
        return [value]
    if not isinstance(value, str) or "://" not in value:
        return []
    try:
        url = urlsplit(value)
    except ValueError:
        return [value]
    user_info = url.netloc.rpartition("@")[0]
    password = user_info.partition(":")[2] or user_info
    raw = [password, *(pair.partition("=")[2] or pair for pair in url.query.split("&")), url.fragment]
    return [text for part in raw if part for text in (part, unquote(part), unquote_plus(part))]


def _without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without secrets. A URL that carries a secret loses its user name, password and query."""
    kept: dict[str, Any] = {}
    for name, value in options.items():
        if not _secret_parts(name, value):
            kept[name] = value
        elif name not in _SECRET:
            with contextlib.suppress(ValueError):  # not a URL after all
                url = urlsplit(value)
                kept[name] = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment=""))
    return kept


def _as_shown(values: Iterable[Any]) -> tuple[str, ...]:
    """The strings to remove from a message, longest first: values, also inside a dict, and their URL-encoded forms."""
    texts: set[str] = set()
    for value in values:
        for text in map(str, value.values() if isinstance(value, Mapping) else (value,)):
            texts |= {text, quote(text, safe=""), quote_plus(text)}
    # Replacing very short ones would garble the message and hide nothing.
    return tuple(sorted((text for text in texts if len(text) >= 4), key=len, reverse=True))


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


# Each cloud's keys without prefix -> the client's name.
_CONFIG: dict[StorageKind, dict[str, str]] = {
    StorageKind.LOCAL: {},
    StorageKind.S3: {
        **_same("access_key_id", "secret_access_key", "session_token", "region", "default_region", "endpoint"),
        **_same("checksum_algorithm", "conditional_put", "copy_if_not_exists", "disable_tagging", "imdsv1_fallback"),
        **_same("container_credentials_relative_uri", "container_credentials_full_uri", "metadata_endpoint"),
        **_same("container_authorization_token_file", "request_payer", "role_arn", "role_session_name", "s3_express"),
        **_same("server_side_encryption", "skip_signature", "sse_bucket_key_enabled", "sse_customer_key_base64"),
        **_same("sse_kms_key_id", "sts_endpoint", "unsigned_payload", "virtual_hosted_style_request"),
        **_same("web_identity_token_file", "disable_bulk_delete"),
        "token": "session_token",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "aws_endpoint_url_s3",
        "endpoint_url_sts": "sts_endpoint",
        "requester_pays": "request_payer",
    },
    StorageKind.AZURE: {
        **_same("account_name", "account_key", "client_id", "client_secret", "credential_type", "tenant_id"),
        **_same("authority_host", "sas_key", "token", "use_emulator", "use_fabric_endpoint", "encryption_key"),
        **_same("endpoint", "msi_endpoint", "object_id", "msi_resource_id", "federated_token_file", "use_azure_cli"),
        **_same("skip_signature", "disable_tagging", "fabric_token_service_url", "fabric_workload_host"),
        **_same("fabric_session_token", "fabric_cluster_identifier"),
        "access_key": "account_key",
        "master_key": "account_key",
        "authority_id": "tenant_id",
        "sas_token": "sas_key",
        "bearer_token": "token",
        "endpoint_url": "endpoint",
        "identity_endpoint": "msi_endpoint",
    },
    StorageKind.GCS: {
        **_same("service_account", "service_account_key", "base_url", "bearer_token", "application_credentials"),
        **_same("skip_signature"),
        "endpoint": "base_url",
        "endpoint_url": "base_url",
        "service_account_path": "service_account",
    },
}

_PREFIXES: dict[StorageKind, tuple[str, ...]] = {
    StorageKind.LOCAL: ("aws_", "azure_storage_", "azure_", "google_"),
    StorageKind.S3: ("aws_",),
    StorageKind.AZURE: ("azure_storage_", "azure_"),
    StorageKind.GCS: ("google_",),
}

_DURATIONS = frozenset(
    {
        "connect_timeout",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "pool_idle_timeout",
        "read_timeout",
        "timeout",
    }
)
_CLIENT = _DURATIONS | {
    "allow_http",
    "allow_invalid_certificates",
    "default_content_type",
    "default_headers",
    "http1_only",
    "http2_keep_alive_while_idle",
    "http2_only",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "randomize_addresses",
    "root_certificate",
    "user_agent",
}
_RETRY = frozenset({"max_retries", "retry_timeout"})
_URLS = frozenset({"aws_endpoint_url_s3", "base_url", "endpoint", "metadata_endpoint", "sts_endpoint"})

# An access key id is half of a credential and useless alone; headers and proxies often carry a token or a password.
_SECRET = frozenset(
    {
        "access_key_id",
        "account_key",
        "bearer_token",
        "client_secret",
        "default_headers",
        "encryption_key",
        "fabric_session_token",
        "proxy_url",
        "sas_key",
        "secret_access_key",
        "service_account_key",
        "session_token",
        "sse_customer_key_base64",
        "token",
    }
)

_UNSAFE_RENAME = ("allow_unsafe_rename", "mount_allow_unsafe_rename")

# Keys of deltalake and polars for parts that txlog does not have: ignoring them changes no result.
_WITHOUT_EFFECT = frozenset(
    {
        "allow_unsafe_rename",
        "backoff.base",
        "backoff.init_backoff",
        "backoff.max_backoff",
        "backoff_config.base",
        "backoff_config.init_backoff",
        "backoff_config.max_backoff",
        "delta_dynamo_table_name",
        "endpoint_url_dynamodb",
        "file_cache_ttl",
        "force_credential_load",
        "mount_allow_unsafe_rename",
        "object_store_concurrency_limit",
        "retry_base_multiplier",
        "retry_init_backoff_ms",
        "retry_max_backoff_ms",
        "retry_timeout_ms",
        "s3_allow_unsafe_rename",
        "s3_force_credential_load",
        "s3_get_internal_server_error_retries",
        "s3_locking_provider",
        "s3_pool_idle_timeout_seconds",
        "sts_pool_idle_timeout_seconds",
    }
)

_ELSEWHERE = {
    "bucket": "the bucket is taken from the table's URI",
    "bucket_name": "the bucket is taken from the table's URI",
    "container_name": "the container is taken from the table's URI",
    "profile": "pass credential_provider=obstore.auth.boto3.Boto3CredentialProvider(session of that profile)",
    "iam_role_arn": "to assume a role, pass credential_provider=obstore.auth.boto3.StsCredentialProvider(...)",
    "s3_assume_role_arn": "to assume a role, pass credential_provider=obstore.auth.boto3.StsCredentialProvider(...)",
}


_PAGE = "docs/storage.md"


def _refuse_by_name(name: str, key: str, value: Any) -> None:
    if name == "s3_locking_provider" and str(value).strip().lower() not in ("", "none"):
        raise InvalidInputError(
            f"storage_options: {key}={value!r} is not supported. Writers that lock through DynamoDB do not see commits "
            "made by S3's conditional put, and would overwrite them. Stop them, or move all of them to conditional "
            "put (deltalake 1.0 or newer without this option), then remove it."
        )
    if name == "conditional_put" and str(value).strip().lower() != "etag":
        raise InvalidInputError(
            f"storage_options: {key}={value!r} is not supported: commits rely on the store's own conditional put. "
            "Remove the option, or set it to 'etag'."
        )
    if name in _ELSEWHERE:
        raise InvalidInputError(f"storage_options: {key} is not supported: {_ELSEWHERE[name]}")


def allows_unsafe_rename(options: Mapping[str, Any]) -> bool:
    """Whether commits on a drive without links and exclusive renames may replace each other: deltalake's option."""
    found = {key.strip().lower(): value for key, value in options.items()}
    return any(str(found.get(key)).strip().lower() in ("true", "1") for key in _UNSAFE_RENAME)


def _reason_to_ignore(name: str) -> str:
    if name.endswith("allow_unsafe_rename"):
        return "txlog makes every commit with a conditional put"
    return "it configures another library"


def _bare(key: str, cloud: StorageKind) -> str:
    """The key in lower case without the cloud's prefix."""
    name = key.strip().lower()
    for prefix in _PREFIXES[cloud]:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def _check_known_anywhere(key: str) -> None:
    for cloud in (StorageKind.S3, StorageKind.AZURE, StorageKind.GCS):
        name = _bare(key, cloud)
        if name in _CONFIG[cloud] or name in _CLIENT or name in _RETRY:
            return
    raise _unknown(key, StorageKind.LOCAL)


def _unknown(key: str, cloud: StorageKind) -> InvalidInputError:
    import difflib

    clouds = [cloud] if cloud is not StorageKind.LOCAL else [StorageKind.S3, StorageKind.AZURE, StorageKind.GCS]
    known = sorted({name for each in clouds for name in _CONFIG[each]} | _CLIENT | _RETRY)
    near = difflib.get_close_matches(_bare(key, cloud), known, n=1, cutoff=0.6)
    where = f"{_PAGE} lists the keys of each store" + (
        "; a local disk needs none" if cloud is StorageKind.LOCAL else ""
    )
    advice = f"Did you mean {near[0]!r}? {where}." if near else f"{where}."
    return InvalidInputError(f"storage_options: there is no key {key!r} for a table on {cloud.value}. {advice}")


def _set_once(target: dict[str, Any], name: str, value: Any, key: str) -> None:
    if name in target and target[name] != value:
        raise InvalidInputError(f"storage_options: {key} gives {name} a second, different value; keep one of them")
    target[name] = value


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    raise InvalidInputError(f"storage_options: {key} takes a string, got {type(value).__name__}")


_URL_EXAMPLES = {
    StorageKind.S3: ("https://s3.example.com", "http://127.0.0.1:9000"),
    StorageKind.AZURE: ("https://account.blob.core.windows.net", "http://127.0.0.1:10000/devstoreaccount1"),
    StorageKind.GCS: ("https://storage.example.com", "http://127.0.0.1:4443"),
}


def _url(key: str, value: Any, cloud: StorageKind) -> str:
    """A URL with its scheme. Without a scheme the client would panic at the first request."""
    text = _text(key, value)
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in ("https", "http") or not rest.strip("/"):
        secure, plain = _URL_EXAMPLES[cloud]
        shown = scheme if scheme.replace("+", "").replace("-", "").replace(".", "").isalnum() else "another"
        problem = "no server follows" if not rest else f"{shown}:// is not a scheme of web servers"
        raise InvalidInputError(
            f"storage_options: {key} takes a complete URL, such as {secure}, or {plain} with allow_http:"
            f" {problem if separator else 'http:// or https:// is missing'}"
        )
    return text


def _client_value(key: str, name: str, value: Any) -> Any:
    if name in _DURATIONS:
        return _duration(key, value)
    if name == "default_headers":
        if isinstance(value, Mapping):
            return dict(value)
        raise InvalidInputError(f"storage_options: {key} takes a dict of header names to values")
    return value if isinstance(value, bytes) and "certificate" in name else _text(key, value)


def _duration(key: str, value: Any) -> timedelta | str:
    """A duration as the client reads it; bare numbers are seconds."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return timedelta(seconds=value)
    if isinstance(value, str):
        return timedelta(seconds=float(value)) if _NUMBER.fullmatch(value) else value
    raise InvalidInputError(f"storage_options: {key} takes seconds, or text such as '30s', got {value!r}")


_NUMBER = re.compile(r"\d+(\.\d+)?")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|seconds?|m|min|minutes?|h|hours?)")
_SPAN_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _retry_value(key: str, name: str, value: Any) -> Any:
    if name == "max_retries":
        if isinstance(value, bool) or not str(value).isdecimal():
            raise InvalidInputError(f"storage_options: {key} takes a whole number from 0, got {value!r}")
        return int(value)
    duration = _duration(key, value)
    if isinstance(duration, timedelta):
        return duration
    match = _SPAN.fullmatch(duration.strip().lower())
    if match is None:
        raise InvalidInputError(f"storage_options: {key} takes seconds, or text such as '30s', got {value!r}")
    unit = match[2] if match[2] == "ms" else match[2][0]
    return timedelta(seconds=float(match[1]) * _SPAN_S[unit])
