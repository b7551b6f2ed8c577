"""Operations that keep a table fast and small, check it, take it back, and read what it was."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from txlog.core.declarations._model import Argument, Kind, Operation
from txlog.core.declarations._shared import (
    CONDITION,
    FILE,
    HOURS,
    NAMES,
    ON_PROGRESS,
    PARAMETERS,
    PARQUET,
    SIZE,
    SWITCH,
    TARGET_FILE_SIZE,
    USER_METADATA,
    VERSION,
    WHERE,
    WHOLE,
    WORKERS,
    dry_run,
    in_python,
    timestamp,
)

_PARTITIONS = Argument("where", "which partitions; default: all", CONDITION)
_LIMIT = Argument("limit", "only the newest", Kind("whole", "NUMBER", minimum=1), "--limit/-n")
_TAG = Argument("name", "the name of a version", option="NAME")

UPKEEP: Final = (
    Operation(
        "optimize",
        "Rewrite small files, and files with many dead rows, as larger ones.",
        (
            replace(_PARTITIONS, sql="WHERE day = '2026-11-20'"),
            PARAMETERS,
            TARGET_FILE_SIZE,
            PARQUET,
            Argument("max_bytes", "rewrite no more than this, such as 10gb", SIZE),
            Argument(
                "zorder_by", "order the rows by these, such as a,b", Kind(shown="COLUMNS"), sql="ZORDER BY (a, b)"
            ),
            dry_run("only show what would be rewritten"),
            USER_METADATA,
            ON_PROGRESS,
            WORKERS,
        ),
        command="optimize",
        sql="OPTIMIZE t",
        spark="optimize",
    ),
    Operation(
        "purge",
        "Rewrite every file that holds deleted rows or dropped columns, without them.",
        (
            replace(_PARTITIONS, sql="REORG TABLE t WHERE day = '2026-11-20' APPLY (PURGE)"),
            PARAMETERS,
            dry_run("only show what would be rewritten"),
            USER_METADATA,
            ON_PROGRESS,
            WORKERS,
        ),
        command="purge",
        sql="REORG TABLE t APPLY (PURGE)",
        spark="purge",
    ),
    Operation(
        "vacuum",
        "Delete data files that no retained version needs.",
        (
            Argument(
                "retention_hours",
                "delete files that have not been needed for this long (default: the table's)",
                HOURS,
                sql="RETAIN 24 HOURS",
            ),
            dry_run("only list what would be deleted", "DRY RUN"),
            Argument(
                "lite", "look for removed files in the log only; misses those of crashed writers", SWITCH, sql="LITE"
            ),
            Argument("inventory", "a Parquet file that lists the files: path, length, isDir, modificationTime", FILE),
            Argument("force", "accept a retention shorter than the table's", SWITCH),
            ON_PROGRESS,
            WORKERS,
        ),
        command="vacuum",
        sql="VACUUM t",
        spark="vacuum",
    ),
    Operation(
        "maintain",
        "Do all maintenance that is due: compact small files, write a checkpoint, clean up the log, vacuum.",
        (
            Argument(
                "small_files_min",
                "compact partitions with at least this many small files",
                Kind("whole", "NUMBER", minimum=1),
                "--small-files",
            ),
            Argument("max_bytes", "compact no more in a round, such as 10gb", SIZE),
            Argument(
                "vacuum_every_hours",
                "vacuum if the last one was this long ago; 0: never",
                HOURS,
                "--vacuum-every",
            ),
            dry_run(),
            Argument(
                "interval_s",
                "with --watch: between two rounds (default: 60)",
                Kind("number", "SECONDS", minimum=0.1),
                "--interval",
            ),
            in_python("on_round", "called with the result of each round"),
            ON_PROGRESS,
        ),
        command="maintain",
    ),
    Operation(
        "restore",
        "Restore a table to an older version.",
        (
            replace(VERSION, about="the version to restore", sql="RESTORE TABLE t TO VERSION AS OF 2"),
            timestamp("RESTORE TABLE t TO TIMESTAMP AS OF '2026-11-20'"),
            Argument("allow_missing_files", "leave out rows whose files are missing", SWITCH),
            Argument(
                "allow_expired_files", "also restore files that a vacuum may delete; only while none runs", SWITCH
            ),
            dry_run("only show what would change and what is missing"),
            USER_METADATA,
            ON_PROGRESS,
        ),
        command="restore",
        sql="RESTORE TABLE t TO VERSION AS OF 1",
    ),
    Operation(
        "repair",
        "Show files that are gone, and what is lost with them, or take them out of the table.",
        (
            Argument("remove", "remove the files that are gone from the table; without this, only show them", SWITCH),
            Argument("allow_empty", "even if no file of the table is left", SWITCH),
            USER_METADATA,
            WORKERS,
        ),
        command="repair",
    ),
    Operation(
        "tag",
        "Name a version, so that txlog's log cleanup and vacuum keep it.",
        (_TAG, VERSION),
        command="tag",
    ),
    Operation("tags", "List the named versions.", command="tags"),
    Operation("untag", "Remove the name of a version. The next vacuum may delete its files.", (_TAG,), command="untag"),
    Operation(
        "branch",
        "Make a branch: a table that begins with the rows of a version, and copies no file.",
        (
            Argument("name", "the name of the branch", option="NAME", sql="ALTER TABLE t CREATE BRANCH c"),
            replace(VERSION, sql="VERSION AS OF 1"),
        ),
        command="branch",
        sql="ALTER TABLE t CREATE BRANCH b",
    ),
    Operation(
        "audit",
        "Write to a branch that is published if its rows pass the checks, and discarded if not.",
        (
            in_python("checks", "as for check"),
            in_python("name", "the name of the branch; default: a new one"),
            USER_METADATA,
        ),
    ),
    Operation("branches", "List the branches.", command="branches", sql="SHOW BRANCHES t"),
    Operation(
        "check",
        "Check the rows that a publication of the branch would add.",
        (
            Argument(
                "checks",
                "a condition that each new row must meet, or a query of {branch} whose result must be empty; may be"
                " repeated",
                Kind("text", "SQL", "each"),
                "--check",
            ),
        ),
        command="check",
        sql="ALTER TABLE t CHECK BRANCH b",
    ),
    Operation(
        "publish",
        "Commit what the branch did as one version of its table.",
        (
            Argument("keep", "keep the branch open, so that it can publish more later", SWITCH, sql="KEEP"),
            USER_METADATA,
        ),
        command="publish",
        sql="ALTER TABLE t PUBLISH BRANCH b",
    ),
    Operation(
        "rebase",
        "Move the branch onto the newest version of its table.",
        command="rebase",
        sql="ALTER TABLE t REBASE BRANCH b",
    ),
    Operation(
        "discard",
        "Throw the branch away. The next vacuum of its table may delete its files.",
        command="discard",
        sql="ALTER TABLE t DROP BRANCH b",
    ),
    Operation("create_checkpoint", "Write a Delta checkpoint of the newest version.", command="checkpoint"),
    Operation("compact_log", "Write one file that combines many commits.", (ON_PROGRESS,), command="compact-log"),
    Operation(
        "clean_up_log",
        "Delete versions that are past the log retention.",
        (dry_run("only list what would be deleted"), ON_PROGRESS),
        command="clean-up-log",
    ),
    Operation(
        "generate",
        "Write the symlink manifests of the newest version, for readers without Delta.",
        (Argument("mode", "the kind of manifests", option=None, sql="GENERATE symlink_format_manifest FOR TABLE t"),),
        command="generate",
        sql="GENERATE symlink_format_manifest FOR TABLE t",
    ),
    Operation(
        "export_iceberg",
        "Export the newest version for Iceberg readers.",
        (
            Argument("rebuild", "export the newest version in full, replacing existing Iceberg metadata", SWITCH),
            Argument(
                "register",
                "create or update this entry in an Iceberg catalog (see PyIceberg); later exports update it",
                Kind(shown="CATALOG.NAMESPACE.TABLE"),
            ),
        ),
        command="iceberg",
    ),
)

READS: Final = (
    Operation(
        "head",
        "Read a few rows, from no more files than necessary.",
        (
            Argument(
                "n", "how many rows", Kind("whole", "NUMBER", minimum=1), "--limit/-n", sql="SELECT * FROM t LIMIT 5"
            ),
            Argument("columns", "only these columns: 'id,day'", NAMES, sql="SELECT id FROM t"),
            replace(WHERE, about="only these rows"),
            PARAMETERS,
        ),
        command="head",
        sql="SELECT * FROM t",
    ),
    Operation(
        "count",
        "Count rows; without a condition, from the log alone.",
        (replace(WHERE, about="only these rows"), PARAMETERS),
        command="count",
        sql="SELECT count(*) FROM t",
    ),
    Operation(
        "files",
        "List the data files of a version.",
        (
            Argument("where", "only files that may hold a matching row", CONDITION),
            PARAMETERS,
            Argument("statistics", "also the least and the greatest value of each column, and how many nulls", SWITCH),
        ),
        command="files",
    ),
    Operation(
        "partitions",
        "List the partitions of a table.",
        (Argument("where", "which partitions", option=None), replace(PARAMETERS, option=None)),
        sql="SHOW PARTITIONS t",
    ),
    Operation(
        "changes",
        "Read the rows that versions inserted, updated and deleted.",
        (
            Argument(
                "from_version",
                "the first version",
                Kind("whole", "VERSION", minimum=0),
                "--from",
                sql="SELECT * FROM table_changes('t', 2)",
            ),
            Argument(
                "to_version",
                "the last version; default: the newest",
                Kind("whole", "VERSION", minimum=0),
                "--to",
                sql="SELECT * FROM table_changes('t', 1, 2)",
            ),
            Argument("columns", "only these columns: 'id,day'", NAMES, sql="SELECT id FROM table_changes('t', 1)"),
            Argument("where", "only these rows, such as \"_change_type = 'delete'\"", CONDITION, sql="WHERE id = 1"),
            PARAMETERS,
            Argument(
                "from_timestamp",
                "in place of --from: the first version at or after this time",
                Kind("time", "TIME"),
                sql="SELECT * FROM table_changes('t', '2026-11-20')",
            ),
            Argument(
                "to_timestamp",
                "in place of --to: the last version at or before this time",
                Kind("time", "TIME"),
                sql="SELECT * FROM table_changes('t', 1, '2026-11-20')",
            ),
        ),
        command="changes",
        sql="SELECT * FROM table_changes('t', 1)",
    ),
    Operation(
        "history",
        "List the commits, newest first.",
        (replace(_LIMIT, sql="LIMIT 3"),),
        command="history",
        sql="DESCRIBE HISTORY t",
    ),
    Operation(
        "verify",
        "Check the invariants of a table.",
        (
            Argument(
                "keys",
                "read these columns, and find rows with the same key: 'id,day', or one at a time",
                NAMES,
                "--keys/-k",
            ),
            Argument("data_files", "look up each live data file, by name and size", SWITCH),
            Argument("footers", "read the footer of each, and compare its rows with the log's statistics", SWITCH),
            ON_PROGRESS,
            WORKERS,
        ),
        command="verify",
        spark="verify",
    ),
    Operation(
        "diff",
        "Show what changed between two versions: columns, properties, files and rows.",
        (
            Argument("from_version", "the version before (of a branch: where it began)", WHOLE, "[FROM]"),
            Argument("to_version", "the version after (default: the newest)", WHOLE, "[TO]"),
        ),
        command="diff",
        sql="ALTER TABLE t DIFF BRANCH b",
    ),
    Operation(
        "diff_rows",
        "List the rows that differ between two versions.",
        (
            Argument("from_version", "the version before (of a branch: where it began)", WHOLE, "[FROM]"),
            Argument("to_version", "the version after (default: the newest)", WHOLE, "[TO]"),
            Argument("columns", "compare only these columns: 'id,day'", NAMES),
            Argument("where", "compare only rows that match: \"day = '2026-11-20'\"", CONDITION),
            Argument("keys", "columns by which updated rows are found: 'id,day', or one at a time", NAMES, "--keys/-k"),
        ),
        command="diff-rows",
    ),
    Operation(
        "check_deleted",
        "Check that no file still has anything that was deleted up to a version.",
        (replace(VERSION, about="the version of the delete; default: the newest"),),
        command="check-deleted",
    ),
    Operation(
        "report",
        "Write a page about the table: commits, files, clustering, upkeep, readers, and what to do.",
        (
            replace(_LIMIT, about="only the newest commits"),
            Argument("orphans", "also list the table's folder: files that no version needs", SWITCH),
            ON_PROGRESS,
        ),
        command="report",
    ),
)
