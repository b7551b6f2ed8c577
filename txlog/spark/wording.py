"""Error words for Spark: arguments appear as the options that a Spark user sets.

In: the words of an error's template. Out: its text. `txlog.core.wording` has the words.
"""

from __future__ import annotations

from collections.abc import Mapping

from txlog.core.wording import Word, in_python, spelled

OPTIONS = {
    "app_id": "txnAppId",
    "checkpoint_id": "txnVersion",
    "cluster_by": "clusterBy",
    "compression": "compression",
    "fingerprint": "txnFingerprint",
    "hooks": "hooks",
    "isolation": "isolationLevel",
    "keys": "upsertKeys",
    "max_records_per_file": "maxRecordsPerFile",
    "merge_engine": "mergeEngine",
    "on_conflict": "onConflict",
    "on_mismatch": "onMismatch",
    "partition_by": "partitionBy",
    "read_version": "readVersion",
    "reads_table": "readsTable",
    "row_kind": "rowKindColumn",
    "row_mode": "rowMode",
    "sequence_by": "sequenceBy",
    "target_file_size": "targetFileSize",
    "time_zone": "timeZone",
    "user_metadata": "userMetadata",
    "where": "replaceWhere",
}
"""Argument -> option of ``df.write``."""

_SCHEMA_MODES = {"merge": "mergeSchema", "overwrite": "overwriteSchema"}
_NEW_CHECKPOINT = "start the stream with a new checkpointLocation"
_SKIPS_CHANGES = "skipChangeCommits=true skips such versions"
_READS_CHANGES = "readChangeFeed=true reads the change of each row, if the table has a change feed"
_ADVICE = {
    "follow a new definition": "Restart the query to read with the columns of that version",
    "follow an old definition": (f"Set the option columns to the columns that stayed the same, or {_NEW_CHECKPOINT}"),
    "follow changed rows": (
        f"{_SKIPS_CHANGES}; ignoreChanges=true reads the files that they added, which repeats unchanged rows;"
        f" {_READS_CHANGES}"
    ),
    "follow deleted rows": (
        f"{_SKIPS_CHANGES}; ignoreDeletes=true skips versions that only delete whole files; {_READS_CHANGES}"
    ),
    "follow what is left": (f"The query was stopped for longer than that, so rows may be missing: {_NEW_CHECKPOINT}"),
    "follow with a feed": (
        f"Set delta.enableChangeDataFeed=true on the table, and {_NEW_CHECKPOINT} and a startingVersion after that"
    ),
    "one task for each key": "Bring all rows of a key into one task with df.repartition(<upsertKeys>)",
    "booleans as row kinds": "convert them in the DataFrame",
    "other words for row kinds": "Convert other values in the DataFrame",
    "own credentials": "pass them in the environment, or with .options(**txlog.spark.storage_options(spark))",
}
_STREAM_ADVICE = {
    "replay that nothing confirms": (
        "Nothing was written. If Spark repeats the batch because the stream ended right after its commit, start the"
        " stream once with skipCommittedBatches=true, which drops it. If its checkpointLocation was rewound or"
        " replaced, give the stream a new txnAppId for a new source; skipCommittedBatches=true drops the batches up to"
        " the last committed one"
    ),
}


def in_spark(word: Word) -> str:
    """The word as a user of ``df.write`` reads it."""
    option = OPTIONS.get(word.name)
    if word.kind == "argument" and option is not None:
        return option
    if word.kind == "setting":
        if word.name == "schema_mode":
            return f"{_SCHEMA_MODES[word.value]}=true"
        if option is not None:
            return f"{option}={_value_of(word.value)}"
    if word.kind == "batch":
        return f"txnVersion {word.value} of txnAppId {word.name!r}"
    if word.kind == "call":
        return in_python(word).replace("table.", "txlog.Table.open(path).", 1)
    if word.kind == "advice":
        return _ADVICE.get(word.name) or spelled(word.value, in_spark)
    return in_python(word)


def in_stream(word: Word) -> str:
    """A micro-batch by its own name, and what only a stream can do about it; words without a name in streams stay."""
    if word.kind == "advice" and word.name in _STREAM_ADVICE:
        return _STREAM_ADVICE[word.name]
    return f"micro-batch {word.value} of stream {word.name!r}" if word.kind == "batch" else word.token()


def _value_of(value: object) -> str:
    return ",".join(f"{key}={each}" for key, each in value.items()) if isinstance(value, Mapping) else str(value)
