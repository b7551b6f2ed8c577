"""Whether two folders are the same, whatever leads to them: for commands on two places.

In: the location of a table or folder. Out: one spelling for it.
"""

from __future__ import annotations

import os

from txlog.protocol.paths import canonical_path, uri_of

__all__ = ["root_of"]


def root_of(uri: str) -> str:
    """The beginning of the locations of a folder's files, in one spelling: links are followed, and s3a is s3."""
    return canonical_path(uri_of(uri if "://" in uri else os.path.realpath(uri))).rstrip("/")
