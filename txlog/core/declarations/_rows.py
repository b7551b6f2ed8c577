"""Operations that write and change rows."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from txlog.core.declarations._model import Argument, Kind, Operation
from txlog.core.declarations._shared import (
    APP_ID,
    CHECKPOINT_ID,
    CONDITION,
    DATA,
    EACH,
    FINGERPRINT,
    ON_CONFLICT,
    ON_PROGRESS,
    PARAMETERS,
    PARQUET,
    PARTITION_BY,
    READ_VERSION,
    ROW_MODE,
    SCHEMA_MODE,
    SWITCH,
    TARGET_FILE_SIZE,
    USER_METADATA,
    WHERE,
    WORKERS,
    dry_run,
    in_python,
    of_store,
    one_of,
)

_EXACTLY_ONCE = (APP_ID, CHECKPOINT_ID, FINGERPRINT)
_WRITTEN = (*_EXACTLY_ONCE, USER_METADATA, TARGET_FILE_SIZE, PARQUET)
_ALONE = replace(ON_PROGRESS, in_transaction=False)
_PREVIEW = dry_run("show how many rows and files would change, and write nothing")
_CHANGE = (ROW_MODE, PARQUET, ON_CONFLICT, READ_VERSION, *_EXACTLY_ONCE, USER_METADATA, _PREVIEW, ON_PROGRESS, WORKERS)
_IN_PLACE = tuple(replace(argument, write="") for argument in _CHANGE)
_KEYED = (
    replace(ROW_MODE, write=""),
    PARQUET,
    replace(ON_CONFLICT, write=""),
    replace(READ_VERSION, write=""),
    *_CHANGE[4:],
)
"""Spark's ``df.write`` refuses these three with keys."""

ROWS: Final = (
    Operation(
        "append",
        "Append rows as one version.",
        (
            DATA,
            replace(SCHEMA_MODE, sql="INSERT WITH SCHEMA EVOLUTION INTO t SELECT * FROM s"),
            *_WRITTEN,
            _ALONE,
        ),
        in_transaction=True,
        command="append",
        sql="INSERT INTO t SELECT * FROM s",
        write="append",
        stream="append",
    ),
    Operation(
        "overwrite",
        "Replace all rows, or those that satisfy a condition, as one version.",
        (
            DATA,
            Argument(
                "where",
                "replace only these rows; the data must not have others",
                CONDITION,
                write="replaceWhere",
                of_streams=False,
                sql="INSERT INTO t REPLACE WHERE id = 1 SELECT * FROM s",
            ),
            PARAMETERS,
            SCHEMA_MODE,
            replace(PARTITION_BY, option=None),
            *_WRITTEN,
            in_python("column_rules", "whether a new schema keeps the rules of columns"),
            ROW_MODE,
            replace(ON_CONFLICT, about="if others commit first: rerun replaces what they wrote too"),
            READ_VERSION,
            dry_run("only show what would be replaced"),
            _ALONE,
        ),
        in_transaction=True,
        command="overwrite",
        sql="INSERT OVERWRITE t SELECT * FROM s",
        write="overwrite",
        stream="complete",
    ),
    Operation(
        "overwrite_partitions",
        "Replace the partitions that the rows have, as one version.",
        (DATA, SCHEMA_MODE, *_WRITTEN, ON_CONFLICT, READ_VERSION, dry_run("only show what would be replaced"), _ALONE),
        in_transaction=True,
        command="overwrite-partitions",
        write="overwrite with partitionOverwriteMode=dynamic",
    ),
    Operation(
        "delete",
        "Delete the rows for which a condition is true, as one version.",
        (
            replace(WHERE, about="the rows to delete"),
            PARAMETERS,
            Argument("all", "delete every row", SWITCH),
            *_IN_PLACE,
        ),
        in_transaction=True,
        command="delete",
        sql="DELETE FROM t",
        spark="delete",
    ),
    Operation(
        "update",
        "Set columns of the rows for which a condition is true, as one version.",
        (
            Argument(
                "values",
                "a column's new value as SQL: 'n=n + 1', 's=:s' with --param",
                Kind("text", "COLUMN=SQL", "pairs"),
                "--set",
                sql="UPDATE t SET id = 2",
            ),
            replace(WHERE, about="the rows to change; default: all"),
            PARAMETERS,
            *_IN_PLACE,
        ),
        in_transaction=True,
        command="update",
        sql="UPDATE t SET id = 1",
        spark="update",
    ),
    Operation(
        "upsert",
        "Update the rows whose keys the data has, and insert the others, as one version.",
        (
            DATA,
            Argument("keys", "a column of the key; may be repeated", EACH, "--key", write="upsertKeys"),
            Argument("when_matched", "what to do with known keys", one_of("update", "ignore")),
            Argument("when_not_matched", "what to do with new keys", one_of("insert", "ignore")),
            in_python("update_columns", "the columns that matched rows get", in_transaction=True),
            Argument("missing_columns", "what to do about columns that the data lacks", one_of("error", "default")),
            Argument("on_duplicate", "which row of a repeated key to use", one_of("error", "last", "first")),
            Argument(
                "sequence_by", "the row with the greatest value comes last", Kind(shown="COLUMN"), write="sequenceBy"
            ),
            replace(SCHEMA_MODE, write=""),
            Argument(
                "merge_engine",
                "how to merge rows with one key: deduplicate, aggregation, partial-update, first-row, or an installed"
                " package's engine; default: the table's",
                Kind(shown="NAME"),
                write="mergeEngine",
                in_spark=False,
            ),
            Argument(
                "row_kind",
                "the kind of each row: +I, -U, +U, -D, or c, r, u, d",
                Kind(shown="COLUMN"),
                write="rowKindColumn",
                in_spark=False,
            ),
            Argument(
                "row_kinds",
                "what another value means: gone=-D",
                Kind("text", "WORD=KIND", "pairs"),
                "--row-kinds",
                in_spark=False,
            ),
            *_KEYED,
        ),
        in_transaction=True,
        command="upsert",
        spark="upsert",
        write="append with upsertKeys",
        stream="append with upsertKeys",
    ),
    Operation(
        "merge",
        "Update and delete rows that match the data, and insert the others, as one version.",
        (
            DATA,
            Argument(
                "on",
                "which rows match: 'target.id = source.id'",
                CONDITION,
                sql="MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
            ),
            PARAMETERS,
            in_python("source_alias", "the name of the data in conditions", in_transaction=True),
            in_python("target_alias", "the name of the table in conditions", in_transaction=True),
            replace(
                SCHEMA_MODE,
                write="",
                sql="MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
            ),
            *_IN_PLACE,
        ),
        in_transaction=True,
        command="merge",
        sql="MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
        spark="merge",
    ),
    Operation(
        "add_files",
        "Add Parquet files that are already below the table's root.",
        (
            Argument("paths", "the files, or a folder", option=None),
            USER_METADATA,
            ON_PROGRESS,
            WORKERS,
        ),
        spark="add_files",
    ),
    Operation(
        "copy_into",
        "Load the files of a folder that were not loaded before.",
        (
            Argument(
                "source", "the folder with the files", option="FOLDER", sql="COPY INTO t FROM '/g' FILEFORMAT = CSV"
            ),
            Argument(
                "format",
                "the format of files without a known suffix",
                one_of("parquet", "csv", "json"),
                sql="COPY INTO t FROM '/f' FILEFORMAT = JSON",
            ),
            Argument("pattern", "only these files: '2026-*/*.csv'", Kind(shown="GLOB"), sql="PATTERN = '*.csv'"),
            replace(SCHEMA_MODE, sql="COPY_OPTIONS ('mergeSchema' = 'true')"),
            Argument(
                "delimiter",
                "separates CSV values: ';', '|', 'tab'",
                Kind(shown="CHARACTER"),
                sql="FORMAT_OPTIONS ('delimiter' = ';')",
            ),
            Argument(
                "header",
                "CSV has no header; its columns are the table's, in order",
                SWITCH,
                "--no-header",
                sql="FORMAT_OPTIONS ('header' = 'true')",
            ),
            Argument(
                "null_values",
                "a string that means null in CSV, like an empty field (in a file of one column, an empty line)",
                Kind("text", "TEXT", "each"),
                "--null",
                sql="FORMAT_OPTIONS ('nullValue' = '-')",
            ),
            Argument(
                "decimal_comma",
                "numbers in CSV are written as 1,50",
                SWITCH,
                sql="FORMAT_OPTIONS ('decimalComma' = 'true')",
            ),
            Argument("force", "load files that were loaded before, too", SWITCH, sql="COPY_OPTIONS ('force' = 'true')"),
            dry_run("only show what would be loaded"),
            *(replace(each, option="--source-option" if each.option == "" else None) for each in of_store("FOLDER")),
            USER_METADATA,
            ON_PROGRESS,
        ),
        command="copy-into",
        sql="COPY INTO t FROM '/f' FILEFORMAT = CSV",
    ),
)
