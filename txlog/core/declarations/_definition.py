"""Operations that make a table, change what it is, or take over data that is already there."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from txlog.core.declarations._model import Argument, Kind, Operation
from txlog.core.declarations._shared import (
    CLUSTER_BY,
    CONDITION,
    EACH,
    NAMES,
    ON_PROGRESS,
    PAIRS,
    PARTITION_BY,
    SWITCH,
    USER_METADATA,
    VERSION,
    WORKERS,
    in_python,
    of_store,
    one_of,
    timestamp,
)

_URI = Argument("uri", "a path, or a file:, s3://, gs://, az:// or abfss:// URI", option="URI")
_STORE = tuple(replace(each, option=None) for each in of_store("the table"))  # a shared option of all commands
_HANDLE = (in_python("retry", "how long a commit keeps trying"), _STORE[1])
_PROPERTIES = Argument(
    "properties",
    "a table property; may be repeated",
    PAIRS,
    "--property",
    write="delta.*",
    sql="TBLPROPERTIES ('delta.appendOnly' = 'true')",
)
_COLUMN = Argument("column", "a column, or a struct field: place.city", option="COLUMN")

DEFINITION: Final = (
    Operation(
        "create",
        "Create an empty table, as version 0.",
        (
            _URI,
            Argument(
                "schema",
                "the columns: 'id bigint not null, name string'",
                CONDITION,
                "--columns",
                sql="CREATE TABLE t (id string)",
            ),
            replace(PARTITION_BY, sql="PARTITIONED BY (id)"),
            _PROPERTIES,
            replace(CLUSTER_BY, sql="CLUSTER BY (id)"),
            Argument(
                "column_mapping", "allow renaming and dropping columns; some readers refuse it", one_of("name", "id")
            ),
            Argument("name", "a name in the table's metadata"),
            Argument("description", "what the table is about", sql="COMMENT 'orders'"),
            Argument(
                "exist_ok",
                "do nothing if the table already exists",
                SWITCH,
                sql="CREATE TABLE IF NOT EXISTS t (id bigint)",
            ),
            _STORE[0],
            *_HANDLE,
            in_python("hooks", "called for each commit of the handle"),
            USER_METADATA,
            in_python("key_cache_size", "the memory for keys of data files"),
            replace(in_python("time_zone", "the zone of times without one"), write="timeZone"),
        ),
        command="create",
        sql="CREATE TABLE t (id bigint)",
    ),
    Operation(
        "convert",
        "Make a Delta table of the Parquet files in a folder, or of an Iceberg table. No file is rewritten.",
        (
            _URI,
            Argument(
                "partition_by",
                "the columns of directories, with types: 'day date, n int'",
                CONDITION,
                sql="PARTITIONED BY (day date)",
            ),
            replace(_PROPERTIES, sql=""),
            Argument("iceberg_metadata", "the current metadata.json of an Iceberg table", Kind(shown="PATH")),
            _STORE[0],
            *_HANDLE,
            USER_METADATA,
            ON_PROGRESS,
            WORKERS,
        ),
        command="convert",
        sql="CONVERT TO DELTA parquet.`/t`",
    ),
    Operation(
        "clone",
        "Copy a table, or make one that reads its files.",
        (
            Argument("uri", "the clone's location", option="TARGET", sql="CREATE TABLE d CLONE t"),
            replace(VERSION, about="the version to clone", sql="VERSION AS OF 1"),
            timestamp("TIMESTAMP AS OF '2026-11-20'"),
            Argument(
                "shallow",
                "share the table's files instead of copying them",
                SWITCH,
                sql="CREATE TABLE c SHALLOW CLONE t",
            ),
            Argument(
                "mode",
                "what to do if there is a table at TARGET",
                one_of("error", "ignore", "replace"),
                sql="CREATE OR REPLACE TABLE c CLONE t",
            ),
            replace(_PROPERTIES, about="a property of the clone; may be repeated"),
            *(replace(each, option="--target-option" if each.option == "" else None) for each in of_store("TARGET")),
            USER_METADATA,
            ON_PROGRESS,
            WORKERS,
        ),
        command="clone",
        sql="CREATE TABLE c CLONE t",
    ),
    Operation(
        "set_properties",
        "Set properties of a table.",
        (
            replace(
                _PROPERTIES,
                about="properties to set: delta.appendOnly=true",
                option="[KEY=VALUE]...",
                sql="ALTER TABLE t SET TBLPROPERTIES ('k' = 'w')",
            ),
            USER_METADATA,
        ),
        in_transaction=True,
        command="set",
        sql="ALTER TABLE t SET TBLPROPERTIES ('k' = 'v')",
    ),
    Operation(
        "unset_properties",
        "Remove properties of a table.",
        (
            Argument(
                "keys",
                "a property to remove; may be repeated",
                Kind("text", "KEY", "each"),
                "--unset",
                sql="ALTER TABLE t UNSET TBLPROPERTIES ('l')",
            ),
            USER_METADATA,
        ),
        command="set",
        sql="ALTER TABLE t UNSET TBLPROPERTIES ('k')",
    ),
    Operation(
        "add_columns",
        "Add columns or struct fields. They are null in the rows of the table.",
        (
            Argument(
                "schema",
                "the columns: 'day date, place struct<country: string>'",
                CONDITION,
                "SQL",
                sql="ALTER TABLE t ADD COLUMNS (b bigint)",
            ),
            USER_METADATA,
        ),
        in_transaction=True,
        command="add-columns",
        sql="ALTER TABLE t ADD COLUMNS (a bigint)",
    ),
    Operation(
        "rename_column",
        "Rename a column or a struct field. No file is rewritten.",
        (
            replace(_COLUMN, sql="ALTER TABLE t RENAME COLUMN c TO b"),
            Argument("name", "the new name", option="NAME", sql="ALTER TABLE t RENAME COLUMN a TO c"),
            USER_METADATA,
        ),
        in_transaction=True,
        command="rename-column",
        sql="ALTER TABLE t RENAME COLUMN a TO b",
    ),
    Operation(
        "drop_columns",
        "Drop columns or struct fields. No file is rewritten.",
        (
            Argument("columns", "columns or struct fields", EACH, "COLUMN...", sql="ALTER TABLE t DROP COLUMNS (a, b)"),
            USER_METADATA,
        ),
        in_transaction=True,
        command="drop-columns",
        sql="ALTER TABLE t DROP COLUMNS (a)",
    ),
    Operation(
        "alter_column",
        "Change the type, NOT NULL, the comment, the default or the position of a column. No file is rewritten.",
        (
            replace(_COLUMN, sql="ALTER TABLE t ALTER COLUMN b SET NOT NULL"),
            Argument(
                "type",
                "a wider type: bigint, double, decimal(20,2)",
                Kind(shown="TYPE"),
                sql="ALTER TABLE t ALTER COLUMN a TYPE bigint",
            ),
            Argument(
                "nullable",
                "whether rows may lack a value; all rows are checked",
                SWITCH,
                "--nullable/--not-null",
                sql="ALTER TABLE t ALTER COLUMN a DROP NOT NULL",
            ),
            Argument("comment", "an empty text removes it", sql="ALTER TABLE t ALTER COLUMN a COMMENT 'key'"),
            Argument(
                "default",
                "the value of rows that lack the column; empty for none",
                CONDITION,
                sql="ALTER TABLE t ALTER COLUMN a SET DEFAULT 1",
            ),
            Argument("first", "make it the first column", SWITCH, sql="ALTER TABLE t ALTER COLUMN a FIRST"),
            Argument(
                "after", "the column to put it after", Kind(shown="COLUMN"), sql="ALTER TABLE t ALTER COLUMN a AFTER b"
            ),
            USER_METADATA,
            WORKERS,
        ),
        in_transaction=True,
        command="alter-column",
        sql="ALTER TABLE t ALTER COLUMN a SET NOT NULL",
    ),
    Operation(
        "sync_identity",
        "Advance an identity column past its highest value.",
        (
            Argument(
                "column",
                "the identity column",
                option="COLUMN",
                sql="ALTER TABLE t ALTER COLUMN b SYNC IDENTITY",
            ),
            USER_METADATA,
        ),
        in_transaction=True,
        command="sync-identity",
        sql="ALTER TABLE t ALTER COLUMN a SYNC IDENTITY",
    ),
    Operation(
        "set_description",
        "Set the description or the name of a table.",
        (
            Argument(
                "description",
                "what the table is about; an empty text removes it",
                option="[TEXT]",
                sql="COMMENT ON TABLE t IS 'rows'",
            ),
            Argument("name", "the name in its metadata, which has no effect"),
            USER_METADATA,
        ),
        in_transaction=True,
        command="set-description",
        sql="COMMENT ON TABLE t IS 'orders'",
    ),
    Operation(
        "add_constraint",
        "Require a condition of every row. The rows of the table are checked first.",
        (
            Argument("name", "the constraint", option="NAME", sql="ALTER TABLE t ADD CONSTRAINT b CHECK (id > 0)"),
            Argument(
                "condition",
                "what every row must meet: 'amount > 0'",
                CONDITION,
                "[SQL]",
                sql="ALTER TABLE t ADD CONSTRAINT a CHECK (id > 1)",
            ),
            USER_METADATA,
            replace(WORKERS, option=None),
        ),
        command="constraint",
        sql="ALTER TABLE t ADD CONSTRAINT a CHECK (id > 0)",
        spark="add_constraint",
    ),
    Operation(
        "drop_constraint",
        "Drop a constraint; rows need no longer meet it.",
        (
            Argument("name", "the constraint", option="NAME", sql="ALTER TABLE t DROP CONSTRAINT b"),
            Argument(
                "if_exists",
                "do nothing if there is none",
                SWITCH,
                sql="ALTER TABLE t DROP CONSTRAINT IF EXISTS a",
            ),
            USER_METADATA,
        ),
        command="constraint",
        sql="ALTER TABLE t DROP CONSTRAINT a",
    ),
    Operation(
        "cluster_by",
        "Cluster the table by other columns from now on, or by none.",
        (
            Argument("columns", "up to four columns, or none", NAMES, sql="ALTER TABLE t CLUSTER BY (b)"),
            USER_METADATA,
        ),
        sql="ALTER TABLE t CLUSTER BY (a)",
    ),
    Operation(
        "drop_feature",
        "Remove a table feature and everything stored for it.",
        (
            Argument("name", "such as deletionVectors", option="FEATURE", sql="ALTER TABLE t DROP FEATURE rowTracking"),
            Argument(
                "truncate_history",
                "remove the versions that need it; they must be older than a day",
                SWITCH,
                sql="TRUNCATE HISTORY",
            ),
            USER_METADATA,
            WORKERS,
        ),
        command="drop-feature",
        sql="ALTER TABLE t DROP FEATURE deletionVectors",
    ),
)
