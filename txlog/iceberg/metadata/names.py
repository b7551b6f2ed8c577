"""Names and ids of Iceberg metadata, derived from the Delta table alone: all exporters of a version choose the same.

In: a table id, a version, the bytes of a file. Out: ids and file names. The names of manifests, manifest lists and
delete files are derived from their content, so if a name is taken, the put has nothing left to do.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

HINT = "version-hint.text"
"""The file with the newest metadata file's number, for readers that list nothing; it may lag behind."""

_ODD = 11_400_714_819_323_198_485  # odd, so the product below can be inverted: no two versions share an id
_CONTENT_NAME = re.compile(r"(\d{20})-[0-9a-f]{24}-[a-z0-9]+\.[a-z]+")
_METADATA_NAME = re.compile(r"v([1-9]\d{0,17})\.metadata\.json")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NewFile(NamedTuple):
    """A file to put into the metadata folder: its name there, and its bytes."""

    name: str
    body: bytes


def content_name(version: int, body: bytes, suffix: str) -> str:
    """The name of a Delta version's file, by its content: ``<version>-<digest><suffix>``, such as ``-m0.avro``."""
    return f"{version:020d}-{sha256(body).hexdigest()[:24]}{suffix}"


def content_version(name: str) -> int | None:
    """The Delta version in a name that `content_name` made; None for any other name."""
    matched = _CONTENT_NAME.fullmatch(name)
    return int(matched[1]) if matched else None


def metadata_name(number: int) -> str:
    return f"v{number}.metadata.json"


def metadata_number(name: str) -> int | None:
    """N of ``vN.metadata.json``; None for any other name."""
    matched = _METADATA_NAME.fullmatch(name)
    return int(matched[1]) if matched else None


def table_uuid(table_id: str) -> str:
    """The Delta table's id, which nearly every writer makes a UUID; for any other string a UUID derived from it."""
    folded = table_id.lower()
    if _UUID.fullmatch(folded):
        return folded
    digest = sha256(table_id.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def snapshot_id(version: int, table_id: str) -> int:
    """The id of the snapshot of a Delta version: positive, and different for every version of a table."""
    fragment = int(table_uuid(table_id).replace("-", ""), 16) & 0xFFFFF
    return (((version << 20) | fragment) * _ODD) & (2**63 - 1)
