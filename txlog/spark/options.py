"""The options of a Spark write: the names that txlog knows, how it reads their values, and what it refuses.

In: the options as Spark passes them (keys in lower case). Out: a `SparkWriteOptions`, complete and checked; no option
is ever ignored. Options with Delta's names have Delta's meaning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec

from txlog.changelog.spec import ChangelogMode, ChangelogSpec
from txlog.core.format.properties import (
    CODEC,
    CODECS,
    MERGE_ENGINE,
    PARQUET,
    PREFIX,
    SHORT_LOG_RETENTION,
    NotOfferedError,
    merge_engine_name,
    merge_options,
    validate,
)
from txlog.core.store import RetryPolicy
from txlog.core.util import invalid, one_of, repr_without
from txlog.core.writing import checked_settings
from txlog.core.writing.commit_options import PLAIN_COMMIT, CommitOptions, IsolationName, OnConflict
from txlog.core.writing.write_intent import MismatchAction, MismatchPolicy, RowMode
from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.spark.option_values import (
    BadValue,
    Given,
    byte_count,
    choice,
    choice_by_name,
    column_list,
    flag,
    milliseconds,
    object_name,
    positive_count,
    text_by_key,
    text_value,
    whole_count,
    zone,
)

NO_PATH_TO_WRITE = (
    "write with .save(path) or .option('path', path). For a catalog table, Spark passes a"
    " Python data source neither LOCATION nor OPTIONS, so each write must name the path again:"
    " INSERT INTO t WITH (path='...') SELECT ..., df.writeTo('t').option('path', path).append(),"
    " or df.write.format('txlog').option('path', path).mode('append').saveAsTable('t');"
    " insertInto and CREATE TABLE ... AS SELECT cannot name a path"
)
KNOWN = (
    "path",
    "catalog",
    "txnAppId",
    "txnVersion",
    "txnFingerprint",
    "mergeSchema",
    "overwriteSchema",
    "dataChange",
    "partitionBy",
    "clusterBy",
    "tableProperties",
    "partitionOverwriteMode",
    "replaceWhere",
    "rowMode",
    "onConflict",
    "readVersion",
    "readsTable",
    "upsertKeys",
    "rowKindColumn",
    "sequenceBy",
    "changelogMode",
    "mergeEngine",
    "onMismatch",
    "userMetadata",
    "maxRecordsPerFile",
    "targetFileSize",
    "compression",
    "isolationLevel",
    "hooks",
    "skipEmpty",
    "mustCreate",
    "timeZone",
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
)
"""Options in their documented spelling. Prefixed ones are accepted too: ``storage.<key>``, ``delta.<table property>``,
``parquet.<setting of data files>`` and ``txlog.<merge option>``."""

_OF_BATCHES = ("txnVersion", "txnFingerprint")
_OF_OVERWRITES = (
    "replaceWhere",
    "partitionOverwriteMode",
    "overwriteSchema",
    "rowMode",
    "onConflict",
    "readVersion",
    "readsTable",
)
_NOT_OF_STREAMS = (*_OF_BATCHES, *_OF_OVERWRITES, "mustCreate")
KNOWN_OF_STREAMS = (
    *(name for name in KNOWN if name not in _NOT_OF_STREAMS),
    "skipCommittedBatches",
    "checkpointLocation",
)


class SparkWriteOptions(msgspec.Struct, frozen=True):
    """The typed options of a Spark write. None and empty mean: not given. Sizes are in bytes.

    ``commit`` holds the options of the commit; the session may add to it. ``replace_where``,
    ``partition_overwrite_mode`` ("static", "dynamic") and ``overwrite_schema`` define what an overwrite replaces, and
    ``row_mode`` how rows leave files that keep other rows. ``changelog`` is set if the rows are changes;
    ``merge_engine`` holds the table properties that define how rows with the same key are merged, and ``mismatch`` says
    what happens to changes that do not fit the table's rows. ``hooks`` is ``module:name``, imported by the process that
    commits. ``parquet`` holds the settings of data files. With ``skip_empty``, an append without rows makes no version.
    With ``must_create``, an existing table is an error. ``time_zone`` None: that of the session. ``optimize_write``
    False: whatever the session says, the rows come as they are to be written.
    ``storage_options`` may hold secrets, so the repr leaves it out.
    """

    path: str
    commit: CommitOptions = PLAIN_COMMIT
    merge_schema: bool = False
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    partition_overwrite_mode: str | None = None
    overwrite_schema: bool = False
    row_mode: RowMode | None = None
    changelog: ChangelogSpec | None = None
    merge_engine: dict[str, str] = msgspec.field(default_factory=dict)
    mismatch: MismatchPolicy | None = None
    max_records_per_file: int | None = None
    target_file_size_bytes: int | None = None
    parquet: dict[str, str] = msgspec.field(default_factory=dict)
    retry: RetryPolicy | None = None
    hooks: str | None = None
    skip_empty: bool | None = None
    must_create: bool = False
    time_zone: str | None = None
    optimize_write: bool | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    storage_options: dict[str, str] = msgspec.field(default_factory=dict)

    __repr__ = repr_without("storage_options")


def parse_write_options(options: Mapping[str, str], known: Sequence[str] = KNOWN) -> SparkWriteOptions:
    """Check and convert the options of ``df.write``.

    Args:
        options: Option -> value; keys in any case.
        known: The names that the error for an unknown option lists.

    Returns:
        The typed options.

    Raises:
        InvalidInputError: An unknown name (the message suggests the nearest known one), a bad value, or options that
            contradict each other.
        UnsupportedFeatureError: An option, named in the message, that this release does not support.
    """
    given = Given(options)
    _refuse_unbuilt(given)
    parsed = SparkWriteOptions(
        path=table_path(given.take("path", str)),
        commit=_commit_options(given),
        merge_schema=bool(given.take("mergeSchema", flag)),
        partition_by=given.take("partitionBy", column_list),
        cluster_by=given.take("clusterBy", column_list),
        replace_where=given.take("replaceWhere", text_value),
        partition_overwrite_mode=given.take("partitionOverwriteMode", choice("static", "dynamic")),
        overwrite_schema=bool(given.take("overwriteSchema", flag)),
        row_mode=given.take("rowMode", choice(*get_args(RowMode))),
        changelog=_changelog(given),
        merge_engine=_merge_engine(given),
        mismatch=_mismatch(given),
        max_records_per_file=given.take("maxRecordsPerFile", positive_count),
        target_file_size_bytes=given.take("targetFileSize", byte_count),
        parquet=_parquet(given),
        retry=_retry(given),
        hooks=given.take("hooks", object_name),
        skip_empty=given.take("skipEmpty", flag),
        must_create=bool(given.take("mustCreate", flag)),
        time_zone=given.take("timeZone", zone),
        optimize_write=given.take("optimizeWrite", flag),
        properties=_properties(given),
        storage_options=given.take_storage(),
    )
    given.take("dataChange", str)
    given.refuse_rest(*known, "storage.<key>", "delta.<table property>", "parquet.<setting>", "txlog.<merge option>")
    _check_region(parsed)
    return parsed


def _commit_options(given: Given) -> CommitOptions:
    """The options of the commit.

    Raises:
        InvalidInputError: The options name half a transaction, or a fingerprint without one.
    """
    app_id, version = given.take("txnAppId", text_value), given.take("txnVersion", whole_count)
    fingerprint = given.take("txnFingerprint", text_value)
    if (app_id is None) != (version is None):
        missing = "txnAppId" if app_id is None else "txnVersion"
        raise InvalidInputError(
            f"option {missing} is missing: txnAppId and txnVersion together identify a batch, so that a rerun adds no"
            " rows twice"
        )
    if fingerprint is not None and app_id is None:
        raise InvalidInputError("option txnFingerprint also needs txnAppId and txnVersion, which name the batch")
    return CommitOptions(
        app_id,
        version,
        fingerprint,
        user_metadata=given.take("userMetadata", str),
        read_version=given.take("readVersion", whole_count),
        on_conflict=given.take("onConflict", choice(*get_args(OnConflict))),
        isolation=given.take("isolationLevel", _isolation),
        reads_table=bool(given.take("readsTable", flag)),
    )


def _changelog(given: Given) -> ChangelogSpec | None:
    """How the rows change the table; None if they are appended or replace others.

    Raises:
        InvalidInputError: ``upsertKeys`` is missing, but another option of such writes is set.
    """
    keys = given.take("upsertKeys", column_list)
    others = {name: given.take(name, text_value) for name in ("rowKindColumn", "sequenceBy")}
    others["changelogMode"] = given.take("changelogMode", choice(*get_args(ChangelogMode)))
    if keys is None:
        for name, value in others.items():
            if value is not None:
                raise InvalidInputError(f"option {name} {_NEEDS_KEYS}")
        return None
    if others["changelogMode"] == "retract" and others["rowKindColumn"] is None:
        raise InvalidInputError(
            "option changelogMode=retract retracts the rows of the kind -U: also set rowKindColumn, the column that"
            " has the kinds"
        )
    mode = others["changelogMode"] or "upsert"
    return ChangelogSpec.of(keys, mode, others["rowKindColumn"], None, others["sequenceBy"])


_NEEDS_KEYS = "is for row changes: also set upsertKeys, the key columns"


def _merge_engine(given: Given) -> dict[str, str]:
    """The merge engine's options as table properties; empty if none is set."""
    engine = given.take("mergeEngine", _engine_name)
    if engine is not None and MERGE_ENGINE in given.rest:
        raise InvalidInputError(f"options mergeEngine and {MERGE_ENGINE} mean the same: set only one of them")
    asked = {} if engine is None else {MERGE_ENGINE: engine}
    found = {PREFIX + name for name in merge_options({**given.rest, **asked})}
    named = {key: given.rest.pop(key) for key in [*given.rest] if key in found}
    return validate({**named, **asked})


def _engine_name(value: str) -> str:
    try:
        return merge_engine_name(value)
    except NotOfferedError as error:
        raise BadValue(str(error)) from None


def _mismatch(given: Given) -> MismatchPolicy | None:
    """What happens to changes that do not fit the table's rows; None if the option is not set."""
    cases = MismatchPolicy.__struct_fields__
    actions = given.take("onMismatch", choice_by_name(get_args(MismatchAction), cases))
    return None if actions is None else MismatchPolicy(**actions)


def _check_region(options: SparkWriteOptions) -> None:
    """Raise InvalidInputError if two options define what to overwrite, or one does although upsertKeys is set, or a
    merge engine or onMismatch is set without upsertKeys."""
    if options.changelog is None and options.mismatch is not None:
        raise InvalidInputError(f"option onMismatch {_NEEDS_KEYS}")
    if options.changelog is None and options.merge_engine:
        name = "mergeEngine" if MERGE_ENGINE in options.merge_engine else next(iter(options.merge_engine))
        raise InvalidInputError(f"option {name} {_NEEDS_KEYS}")
    if options.changelog is not None:
        for name, is_given in (
            ("replaceWhere", options.replace_where is not None),
            ("partitionOverwriteMode", options.partition_overwrite_mode is not None),
            ("overwriteSchema", options.overwrite_schema),
            ("rowMode", options.row_mode is not None),
            ("onConflict", options.commit.on_conflict is not None),
            ("readVersion", options.commit.read_version is not None),
            ("mergeSchema", options.merge_schema),
        ):
            if is_given:
                raise InvalidInputError(
                    f"option {name} does not go with upsertKeys, which changes single rows of a table that already has"
                    " all columns: set only one of them"
                )
        if options.commit.isolation is not None:
            raise InvalidInputError(
                "option isolationLevel does not go with upsertKeys: such a write reruns on the newest version after"
                " a lost race, so it is always Serializable. Leave it out"
            )
    dynamic = options.partition_overwrite_mode == "dynamic"
    if options.replace_where is not None and dynamic:
        raise InvalidInputError(
            "options replaceWhere and partitionOverwriteMode=dynamic each define what to overwrite: set only one"
        )
    if options.overwrite_schema and options.commit.read_version is not None and not options.commit.reads_table:
        raise InvalidInputError(
            "option readVersion keeps rows that were appended after it, and overwriteSchema replaces the columns of all"
            " rows: set only one of them"
        )
    if options.overwrite_schema and (options.replace_where is not None or dynamic):
        other = "partitionOverwriteMode=dynamic" if dynamic else "replaceWhere"
        raise InvalidInputError(
            f"option overwriteSchema replaces the columns of the whole table, but {other} keeps some of its rows: set"
            " only one of them. To add columns, use mergeSchema=true"
        )


class StreamOptions(msgspec.Struct, frozen=True):
    """A stream's options: the options of each micro-batch's write, and the stream's name.

    If ``app_id`` is None, the name is the query's id, which Spark keeps in ``checkpoint_location``. With
    ``skip_committed_batches``, every batch that is not newer than the last committed one is dropped, as in Spark's
    Delta.
    """

    write: SparkWriteOptions
    app_id: str | None = None
    skip_committed_batches: bool = False
    checkpoint_location: str | None = None


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Check and convert the options of ``df.writeStream``.

    Args:
        options: Option -> value; keys in any case.

    Returns:
        The typed options.

    Raises:
        InvalidInputError: What `parse_write_options` raises; or an option is only for batches.
        UnsupportedFeatureError: What `parse_write_options` raises.
    """
    given = Given(options)
    app_id = given.take("txnAppId", text_value)
    skip = bool(given.take("skipCommittedBatches", flag))
    for name, what in zip(_OF_BATCHES, ("its batch id", "its query and offsets"), strict=True):
        if given.take(name, str) is not None:
            raise InvalidInputError(f"option {name} is not for streams: a micro-batch uses {what} instead")
    for name in _OF_OVERWRITES:
        if given.take(name, str) not in (None, "static", "false"):
            raise InvalidInputError(
                f"option {name} is not for streams, whose complete mode replaces every row: use foreachBatch with"
                " txlog.spark.foreach_batch, and pass the option to its writes"
            )
    checkpoint_location = given.take("checkpointLocation", str)
    given.take("queryName", str)
    write = parse_write_options(given.rest, KNOWN_OF_STREAMS)
    if write.must_create:
        raise InvalidInputError("option mustCreate is not for streams, which go on with the table that they made")
    if write.skip_empty is False:
        raise InvalidInputError(
            "option skipEmpty=false is not for streams, which make no version for a micro-batch without rows: leave it"
            " out"
        )
    return StreamOptions(write, app_id, skip, checkpoint_location)


_REPLACE = "use replaceWhere, or partitionOverwriteMode=dynamic"
UNBUILT: dict[str, tuple[Callable[[str], bool], str]] = {
    "dataChange": (lambda value: not flag(value), "leave it out: every write of this release changes data"),
    "versionAsOf": (lambda value: True, "it is a read option: write to the newest version"),
    "timestampAsOf": (lambda value: True, "it is a read option: write to the newest version"),
    "optimizeWrite": (lambda value: flag(value), "repartition the DataFrame before the write"),
    "replaceOn": (lambda value: True, _REPLACE),
    "replaceUsing": (lambda value: True, _REPLACE),
    "checkpointLocation": (lambda value: True, "it is a stream option: df.writeStream.format('txlog')"),
}
"""Options that this release does not support: name -> (whether a value uses the feature, what to do instead)."""


def _refuse_unbuilt(given: Given) -> None:
    """Raise UnsupportedFeatureError for an option of `UNBUILT` whose value uses the feature."""
    for name, (is_use, advice) in UNBUILT.items():
        text = given.rest.get(name.lower())
        if text is None:
            continue
        try:
            unbuilt = is_use(text)
        except BadValue as error:
            raise invalid(f"option {name}", text, str(error)) from None
        if unbuilt:
            raise UnsupportedFeatureError(
                f"option {name} = {text!r} is not supported yet by txlog's Spark writes; {advice}", features=(name,)
            )


def table_path(given: str | None, advice: str = NO_PATH_TO_WRITE) -> str:
    """The absolute location of the table, since executors need not share the driver's working directory.

    Args:
        given: The option's value; None or empty if Spark passed none.
        advice: What the error says to do.

    Raises:
        InvalidInputError: There is no path.
    """
    if not given:
        raise InvalidInputError(f"Spark passed no path: {advice}")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", given):
        return given
    return os.path.abspath(os.path.expanduser(given) if given.startswith("~/") else given)


def _retry(given: Given) -> RetryPolicy | None:
    """The retry policy from options with Iceberg's names, in milliseconds. Options not set keep their default."""
    retries = given.take("commit.retry.num-retries", whole_count)
    seconds = {
        "min_wait": given.take("commit.retry.min-wait-ms", milliseconds),
        "max_wait": given.take("commit.retry.max-wait-ms", milliseconds),
        "total_timeout": given.take("commit.retry.total-timeout-ms", milliseconds),
    }
    settings: dict[str, Any] = {name: value for name, value in seconds.items() if value is not None}
    if retries is not None:
        settings["max_attempts"] = retries + 1
    return RetryPolicy(**settings) if settings else None


def _properties(given: Given) -> dict[str, str]:
    """The ``delta.*`` options as table properties. Spark lower-cases keys, so this restores their spelling.

    Raises:
        InvalidInputError: An unknown property or a bad value, or one that ``tableProperties`` has, too.
    """
    properties = {f"delta.{key}": text for key, text in given.take_prefix("delta.").items()}
    allowed = given.take(SHORT_LOG_RETENTION, str)
    checked = validate(properties if allowed is None else {**properties, SHORT_LOG_RETENTION: allowed})
    more = validate(given.take("tableProperties", text_by_key) or {})
    for name in checked.keys() & more.keys():
        raise InvalidInputError(f"option tableProperties has {name}, which is an option, too: set only one of them")
    return {**checked, **more}


def _parquet(given: Given) -> dict[str, str]:
    """The settings of data files, by the names of table properties. ``compression`` is Spark's word for the codec.

    Raises:
        InvalidInputError: An unknown setting or a bad value, or both words for the codec.
    """
    codec = given.take("compression", choice(*CODECS))
    prefixes = (PARQUET, PREFIX + PARQUET)
    settings = {f"{prefix}{key}": text for prefix in prefixes for key, text in given.take_prefix(prefix).items()}
    if codec is None:
        return checked_settings(settings)
    if CODEC in settings:
        raise InvalidInputError(f"options compression and {CODEC} mean the same: set only one of them")
    return checked_settings({**settings, CODEC: codec})


def _isolation(value: str) -> IsolationName:
    levels: tuple[IsolationName, ...] = get_args(IsolationName)
    found = {level.lower(): level for level in levels}.get(value.strip().lower())
    if found is None:
        raise BadValue(one_of(levels))
    return found
