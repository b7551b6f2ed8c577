"""Opens a catalog by its address: the scheme says which kind it is.

In: an address, and what the catalog or its tables need. Out: a `TableCatalog`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from txlog.catalogs.base import TableCatalog
from txlog.errors import InvalidInputError

__all__ = ["open_catalog"]


def open_catalog(
    uri: str | os.PathLike[str],
    token: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    credential_provider: Callable[[], object] | None = None,
) -> TableCatalog:
    """The catalog at ``uri``. Makes no request. Raises InvalidInputError for an address that cannot be used."""
    from txlog.catalogs.folder import FolderCatalog

    if token is not None:
        raise InvalidInputError("a folder of tables needs no token: pass what the store needs as storage_options")
    return FolderCatalog(uri, storage_options, credential_provider)
