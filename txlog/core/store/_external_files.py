"""Files in other buckets than the table's, which its log names by absolute path. They are read, never changed.

In: the location of a file (`core.format.paths.location_of`). Out: what the `FileStore` of its bucket returns.
PROTOCOL.md, "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from txlog.core.format.paths import is_location
from txlog.core.store._base import FileStore, ObjectMeta
from txlog.core.store._locations import CLOUDS, cloud_location
from txlog.core.store._object_client import Location
from txlog.errors import InvalidInputError, UnsupportedFeatureError

OpenBucket: TypeAlias = Callable[[Location], FileStore]


class OtherBuckets:
    """The buckets that a table's log names, each opened once. Thread-safe."""

    def __init__(self, open_bucket: OpenBucket) -> None:
        self._open_bucket = open_bucket
        self._buckets: dict[str, FileStore] = {}

    def open(self, location: str) -> Any:
        files, key = self._found(location)
        return files.open(key)

    def stat(self, location: str) -> ObjectMeta:
        files, key = self._found(location)
        return files.stat(key)._replace(name=location)

    def _found(self, location: str) -> tuple[FileStore, str]:
        """The store of the file's bucket, and the file's key. Raises UnsupportedFeatureError."""
        scheme, _, rest = location.partition("://")
        bucket, _, key = rest.partition("/")
        if not is_location(location) or scheme not in CLOUDS:
            raise UnsupportedFeatureError(
                f"the log names {location[:200]}, which is not in an object store that this release can read",
                features=("absolute paths",),
                path=location,
            )
        root = f"{scheme}://{bucket}"
        files = self._buckets.get(root)
        if files is None:
            try:
                files = self._buckets.setdefault(root, self._open_bucket(cloud_location(root)))
            except InvalidInputError as error:
                error.path = error.path or location
                raise
        return files, key
