"""The S3 credentials that a Spark session holds for Hadoop, as txlog options.

In: a SparkSession. Out: ``storage.<key>`` options. A Python data source cannot see the session's configuration before
the tasks run, and txlog opens the table before that. So a write cannot read ``fs.s3a.*`` itself, and the program passes
the options to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

__all__ = ["of_session", "storage_options"]

_S3A = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
}
_PREFIXES = ("fs.s3a.", "spark.hadoop.fs.s3a.")
"""The prefix for ``spark.conf.set``, and the one for ``spark-submit --conf`` and the session's builder."""


def storage_options(spark: Any) -> dict[str, str]:
    """The session's ``fs.s3a.*`` credentials and endpoint as options: ``df.write.format("txlog").options(**found)``.

    Args:
        spark: A SparkSession (classic or Connect). Keys for single buckets (``fs.s3a.bucket.*``) and settings that are
            only in Hadoop's own files (``core-site.xml``) are not read.

    Returns:
        ``storage.access_key_id``, ``storage.secret_access_key``, ``storage.session_token``, ``storage.endpoint``,
        ``storage.region``, and ``storage.allow_http`` for an endpoint without TLS. Only keys that are set.
    """
    return _from_settings(dict(spark.conf.getAll))


def _from_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """`storage_options` from plain settings. A key without ``spark.hadoop.`` takes precedence, as it does in Spark."""
    given = {
        key.removeprefix(prefix): value
        for prefix in reversed(_PREFIXES)
        for key, value in settings.items()
        if key.startswith(prefix) and value
    }
    found = {f"storage.{ours}": given[theirs] for theirs, ours in _S3A.items() if theirs in given}
    endpoint = found.get("storage.endpoint")
    is_plain = given.get("connection.ssl.enabled", "true").lower() == "false"
    if endpoint is not None and "://" not in endpoint:
        found["storage.endpoint"] = f"{'http' if is_plain else 'https'}://{endpoint}"
    if found.get("storage.endpoint", "").startswith("http://"):
        found["storage.allow_http"] = "true"
    return found


def of_session(spark: Any, path: str) -> dict[str, str]:
    """The session's `storage_options` if ``path`` is on S3; empty if the session does not list its settings."""
    if not path.startswith(("s3://", "s3a://")):
        return {}
    with contextlib.suppress(Exception):  # an older Spark Connect does not list its settings
        return storage_options(spark)
    return {}
