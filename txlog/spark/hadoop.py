"""The credentials of S3 that a Spark session holds for Hadoop, as options of txlog.

In: a SparkSession. Out: ``storage.<key>`` options. Spark tells a Python data source nothing of its session's
configuration before the tasks run, and the table is opened before that: so a write cannot read ``fs.s3a.*`` by itself,
and the program hands it over.
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
"""As ``spark.conf.set`` takes them, and as ``spark-submit --conf`` and the session's builder do."""


def storage_options(spark: Any) -> dict[str, str]:
    """The session's ``fs.s3a.*`` credentials and endpoint as options: ``df.write.format("txlog").options(**found)``.

    Args:
        spark: A SparkSession (classic or Connect). Keys for single buckets (``fs.s3a.bucket.*``) are not read, nor what
            is only in Hadoop's own files (``core-site.xml``).

    Returns:
        ``storage.access_key_id``, ``storage.secret_access_key``, ``storage.session_token``, ``storage.endpoint``,
        ``storage.region`` and what an endpoint without TLS needs; only those that are set.
    """
    return _from_settings(dict(spark.conf.getAll))


def _from_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """`storage_options` of plain settings; one without ``spark.hadoop.`` wins, as it does in Spark."""
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
    """For a path on S3 the options that the session's settings give; none where they cannot be read."""
    if not path.startswith(("s3://", "s3a://")):
        return {}
    with contextlib.suppress(Exception):  # an older Spark Connect does not list its settings
        return storage_options(spark)
    return {}
