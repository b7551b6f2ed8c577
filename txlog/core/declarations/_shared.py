"""The arguments that several operations share, and the kinds of values."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from txlog.core.declarations._model import Argument, Kind

SWITCH: Final = Kind("switch", "")
CONDITION: Final = Kind("text", "SQL")
WHOLE: Final = Kind("whole", "NUMBER", minimum=0)
SIZE: Final = Kind("size", "SIZE")
HOURS: Final = Kind("number", "HOURS", minimum=0)
FILE: Final = Kind("file", "FILE")
NAMES: Final = Kind("text", "COLUMNS", "names")
PAIRS_OF_NAMES: Final = Kind("text", "NAME=VALUE", "pairs")
PAIRS: Final = Kind("text", "KEY=VALUE", "pairs")
EACH: Final = Kind("text", "COLUMN", "each")


def one_of(*words: str) -> Kind:
    """One of these words."""
    return Kind("text", "|".join(words))


def in_python(name: str, about: str, *, in_transaction: bool = False) -> Argument:
    """An argument that only Python can pass: a function, an object, or what another argument says elsewhere."""
    return Argument(name, about, option=None, in_transaction=in_transaction)


def dry_run(about: str = "only show what would be done", sql: str = "") -> Argument:
    """The preview of an operation."""
    return Argument("dry_run", about, SWITCH, sql=sql, in_transaction=False)


def timestamp(sql: str = "") -> Argument:
    """A time in place of a version."""
    about = "the newest version at this time (ISO 8601, see --time-zone; or ms since 1970)"
    return Argument("timestamp", about, Kind("time", "TIME"), sql=sql)


DATA: Final = Argument("data", "the rows", option=None)  # the command line reads them from files
PARAMETERS: Final = Argument("parameters", "the text for :NAME in SQL; may be repeated", PAIRS_OF_NAMES, "--param")
WHERE: Final = Argument("where", "which rows", CONDITION, sql="WHERE id = 1")
VERSION: Final = Argument("version", "this version instead of the newest", WHOLE)
SCHEMA_MODE: Final = Argument(
    "schema_mode", "add columns that the table lacks", option=None, write="mergeSchema", in_transaction=False
)
PARTITION_BY: Final = Argument(
    "partition_by",
    "partition columns: 'day,region', or one at a time",
    NAMES,
    "--partition-by/-p",
    write="partitionBy",
    in_transaction=False,
)
CLUSTER_BY: Final = Argument(
    "cluster_by", "clustering columns, up to four: 'day,place.city'", Kind("text", "COLUMNS", "each"), write="clusterBy"
)
ROW_MODE: Final = Argument(
    "row_mode",
    "how to remove rows from files that keep other rows",
    one_of("merge-on-read", "copy-on-write"),
    write="rowMode",
    of_streams=False,
)
PARQUET: Final = Argument(
    "parquet",
    "how to encode the files: 'parquet.compression=zstd'; may be repeated",
    PAIRS,
    write="parquet.*",
    in_transaction=False,
)
TARGET_FILE_SIZE: Final = Argument(
    "target_file_size", "the size of the new files, such as 128mb", SIZE, write="targetFileSize", in_transaction=False
)
ON_CONFLICT: Final = Argument(
    "on_conflict",
    "if others commit first: rerun on what they wrote, or fail",
    one_of("fail", "rerun"),
    write="onConflict",
    of_streams=False,
    in_transaction=False,
)
READ_VERSION: Final = Argument(
    "read_version",
    "the version that the rows come from; later changes conflict",
    WHOLE,
    write="readVersion",
    of_streams=False,
    in_transaction=False,
)
APP_ID: Final = Argument(
    "app_id", "the job's name; with --checkpoint-id, writes exactly once", write="txnAppId", in_transaction=False
)
CHECKPOINT_ID: Final = Argument(
    "checkpoint_id",
    "a number that grows with each write of the job",
    WHOLE,
    write="txnVersion",
    of_streams=False,
    in_transaction=False,
)
FINGERPRINT: Final = replace(
    in_python("fingerprint", "what the batch consists of, such as source offsets"),
    write="txnFingerprint",
    of_streams=False,
)
USER_METADATA: Final = Argument(
    "user_metadata", "a note for the table's history", write="userMetadata", in_transaction=False
)
ON_PROGRESS: Final = in_python("on_progress", "called as the work goes on", in_transaction=True)
WORKERS: Final = Argument(
    "workers",
    "use this many processes; default: threads",
    Kind("whole", "NUMBER", minimum=1),
    in_transaction=False,
    in_spark=False,
)


def of_store(of: str) -> tuple[Argument, ...]:
    """How to reach a place: the options of its store, and a provider of credentials."""
    return (
        Argument(
            "storage_options",
            f"a storage option for {of}, if it needs others; may be repeated",
            PAIRS,
            write="storage.*",
        ),
        in_python("credential_provider", f"a provider of credentials for the store of {of}"),
    )
