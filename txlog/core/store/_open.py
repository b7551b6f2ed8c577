"""Opens the stores of a table from its URI.

In: a path, `file:`, `s3://`, `s3a://`, `gs://`, `az://`, `abfs://` or `abfss://` URI, with `storage_options`.
Out: a `TableStore` whose ``uri`` is built from the parsed parts alone, so it can be shown anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from txlog.core.store._local_store import local_table_store
from txlog.core.store._table_store import TableStore
from txlog.core.util import invalid, pattern, type_name_of
from txlog.errors import InvalidInputError

_SCHEME = pattern(r"([A-Za-z][A-Za-z0-9+.-]+):/")


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
    if ":" in text or "\\" in text:
        from txlog.core.store._locations import refuse_other_form

        refuse_other_form(text)
    match = _SCHEME.match(text) if ":" in text else None
    scheme = match[1].lower() if match else "file"
    if scheme == "file" and storage_options is None:  # as in most calls: the options module is slow to import
        return local_table_store(_local_path(text) if match else _from_home(text))
    from txlog.core.store._options import StorageKind, parse_options

    if scheme == "file":
        parse_options(storage_options, StorageKind.LOCAL)
        root = _local_path(text) if match else _from_home(text)
        return local_table_store(root, storage_options, credential_provider)
    from txlog.core.store._locations import cloud_location

    location = cloud_location(text)
    from txlog.core.store._object_store import object_table_store

    return object_table_store(location, parse_options(storage_options, location.cloud), credential_provider)


def is_of_store(scheme: str) -> bool:
    """Whether addresses with this URL scheme are places in a store that txlog knows."""
    folded = scheme.lower()
    if folded == "file":
        return True
    from txlog.core.store._locations import CLOUDS

    return folded in CLOUDS


def foreign_scheme(uri: object) -> str | None:
    """The scheme, in lower case, of an address that is in no store here, as ``uc://a.b.c``; ``@`` for a location whose
    last part has one, which may name a branch; otherwise None."""
    if hasattr(uri, "parts"):  # of pathlib
        uri = str(uri)
    if not isinstance(uri, str) or ("://" not in uri and "@" not in uri):
        return None
    scheme = _SCHEME.match(uri)
    if scheme is not None and not is_of_store(scheme[1]):
        return scheme[1].lower()
    place = uri[scheme.end() + 1 :] if scheme is not None else uri
    return "@" if "@" in place.rstrip("/").rpartition("/")[2] else None


def _from_home(path: str) -> str:
    """Expand ``~/t`` and ``~user/t`` to a path below a home directory; ``./~`` is a folder named ``~``."""
    return os.path.expanduser(path)


def _local_path(uri: str) -> str:
    from urllib.parse import unquote

    from txlog.core.store._locations import split_uri

    parts = split_uri(uri)
    if parts.netloc not in ("", "localhost"):
        raise InvalidInputError(
            f"a file: URI names a path on this machine, not on {parts.hostname!r}: use file:///path"
        )
    if parts.query or parts.fragment:
        raise InvalidInputError("a file: URI has no query and no fragment; write '?' as %3F and '#' as %23")
    return unquote(parts.path)
