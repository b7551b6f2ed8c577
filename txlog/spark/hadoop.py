"""The S3 credentials that a Spark session has for Hadoop, as txlog options.

In: a SparkSession. Out: options of the store: ``storage.<key>`` as Spark writes them, or ``<key>`` alone. A Python data
source cannot see the session's configuration before the tasks run, but txlog opens the table before that. So a write
cannot read ``fs.s3a.*`` itself, and the program passes it the options.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from txlog.core.util import invalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3A = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
}
_SSL, _PROVIDERS = "connection.ssl.enabled", "aws.credentials.provider"
_READ = (*_S3A, _SSL, _PROVIDERS)
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_AMAZON = re.compile(r"(?:^|//)s3[.-]([a-z]+(?:-[a-z]+)+-\d+)\.amazonaws\.com")
"""An Amazon endpoint's name contains its region; Hadoop takes it from there."""
_BUCKET = re.compile(r"s3a?://([^/]+)")
_NOW, _AT_START = "fs.s3a.", "spark.hadoop.fs.s3a."
"""The prefix for ``spark.conf.set``, and the one for ``spark-submit --conf`` and the session's builder."""
_DEFAULTS = "core-default.xml"
_PREFIX = "storage."


def storage_options(spark: SparkSession, uri: str | None = None) -> dict[str, str]:
    """The session's ``fs.s3a.*`` credentials and endpoint as options: ``df.write.format("txlog").options(**found)``.

    Args:
        spark: A SparkSession. For a classic one, this also reads settings in ``core-site.xml`` and
            ``hadoopConfiguration()``; Connect shows only the session's settings.
        uri: The table's location; with it, the keys for its bucket (``fs.s3a.bucket.<name>.*``) take precedence.

    Returns:
        ``storage.access_key_id``, ``storage.secret_access_key``, ``storage.session_token``, ``storage.endpoint``,
        ``storage.region``, ``storage.skip_signature`` for the anonymous credentials provider, and
        ``storage.allow_http`` for an endpoint without TLS. Only keys that are set.
    """
    bucket = _BUCKET.match(uri) if uri is not None else None
    scopes = ("", f"bucket.{bucket[1]}.") if bucket else ("",)
    keys = [f"{scope}{key}" for scope in scopes for key in _READ]
    settings = dict(spark.conf.getAll)
    at_start, now = ({key: settings.get(prefix + key) for key in keys} for prefix in (_AT_START, _NOW))
    hadoop = _of_hadoop(spark, keys)
    given = {key: now[key] or hadoop.get(key) or at_start[key] for key in keys}
    return _as_options({key: value for scope in scopes for key in _READ if (value := given[f"{scope}{key}"])})


def _of_hadoop(spark: Any, keys: list[str]) -> dict[str, str]:
    """A classic session's Hadoop configuration for these keys, without Hadoop's defaults."""
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return {}
    configuration = session.sessionState().newHadoopConf()
    found = {key: configuration.get(_NOW + key) for key in keys}
    sources = {key: [*configuration.getPropertySources(_NOW + key)] for key, value in found.items() if value}
    return {key: found[key] for key, places in sources.items() if places != [_DEFAULTS]}


def _as_options(given: Mapping[str, str]) -> dict[str, str]:
    found = {f"storage.{ours}": given[theirs] for theirs, ours in _S3A.items() if theirs in given}
    endpoint = found.get("storage.endpoint")
    is_plain = given.get(_SSL, "true").lower() == "false"
    if endpoint is not None and "://" not in endpoint:
        found["storage.endpoint"] = f"{'http' if is_plain else 'https'}://{endpoint}"
    if found.get("storage.endpoint", "").startswith("http://"):
        found["storage.allow_http"] = "true"
    if endpoint is not None and (of_region := _AMAZON.search(endpoint)):
        found.setdefault("storage.region", of_region[1])
    if given.get(_PROVIDERS, "").strip().endswith(_ANONYMOUS):
        found["storage.skip_signature"] = "true"
    return found


def check_session(spark: Any) -> None:
    """Raises ``InvalidInputError`` for a first argument that is not a SparkSession, such as the table's location."""
    if not hasattr(spark, "range") or not hasattr(spark, "conf"):
        raise invalid("first argument", spark, "the SparkSession that does the work")


def is_sail(spark: Any) -> bool:
    """Whether the session is one of Sail, which speaks Spark Connect and has no SparkConf: every Spark has a name."""
    return not hasattr(spark, "_jsparkSession") and spark.conf.get("spark.app.name", None) is None


def of_session(spark: Any, path: str) -> dict[str, str]:
    """What ``storage_options=`` takes: the session's options for ``path`` if it is on S3, named without a prefix.

    Empty for other paths, and if the session does not list its settings.
    """
    return {key.removeprefix(_PREFIX): value for key, value in write_options_of_session(spark, path).items()}


def write_options_of_session(spark: Any, path: str) -> dict[str, str]:
    """`of_session`, named as the options of ``df.write``: ``storage.<key>``."""
    if not isinstance(path, str) or not path.startswith(("s3://", "s3a://")):
        return {}
    with contextlib.suppress(Exception):  # an older Spark Connect does not list its settings
        return storage_options(spark, path)
    return {}
