"""Error words for the command line: arguments appear as options, and calls as commands.

In: the words of an error's template. Out: its text. `txlog.core.util.wording` has the words.
"""

from __future__ import annotations

import shlex
from contextvars import ContextVar

from txlog.core.util.wording import Word, in_python, spelled

__all__ = ["OPTIONS", "in_commands", "of_environment"]

of_environment: ContextVar[frozenset[str]] = ContextVar("of_environment", default=frozenset())
"""The arguments whose values come from the environment, since no option gives them."""

OPTIONS = {
    "after": "--after",
    "all": "--all",
    "allow_empty": "--allow-empty",
    "allow_expired_files": "--allow-expired-files",
    "allow_missing_files": "--allow-missing-files",
    "app_id": "--app-id",
    "checkpoint_id": "--checkpoint-id",
    "cluster_by": "--cluster-by",
    "catalog": "--catalog",
    "column_mapping": "--column-mapping",
    "columns": "--columns",
    "comment": "--comment",
    "default": "--default",
    "delimiter": "--delimiter",
    "dialect": "--dialect",
    "exist_ok": "--exist-ok",
    "first": "--first",
    "force": "--force",
    "format": "--format",
    "from_timestamp": "--from-timestamp",
    "from_version": "--from",
    "inventory": "--inventory",
    "iceberg_metadata": "--iceberg-metadata",
    "keys": "--key",
    "limit": "--limit",
    "max_bytes": "--max-bytes",
    "merge_engine": "--merge-engine",
    "missing_columns": "--missing-columns",
    "mode": "--mode",
    "null_values": "--null",
    "nullable": "--nullable",
    "on_conflict": "--on-conflict",
    "on_duplicate": "--on-duplicate",
    "parquet": "--parquet",
    "pattern": "--pattern",
    "partition_by": "--partition-by",
    "properties": "--property",
    "read_version": "--read-version",
    "remove": "--remove",
    "retention_hours": "--retention-hours",
    "row_kind": "--row-kind",
    "row_kinds": "--row-kinds",
    "row_mode": "--mode",
    "sequence_by": "--sequence-by",
    "small_files_min": "--small-files",
    "storage_options": "--storage-option",
    "target_file_size": "--target-file-size",
    "time_zone": "--time-zone",
    "timestamp": "--timestamp",
    "to_timestamp": "--to-timestamp",
    "to_version": "--to",
    "truncate_history": "--truncate-history",
    "type": "--type",
    "user_metadata": "--user-metadata",
    "version": "--version",
    "when_matched": "--when-matched",
    "when_not_matched": "--when-not-matched",
    "where": "--where",
    "workers": "--workers",
}
"""Argument -> option of a command."""

_ADVICE = {
    "open an existing table": "--exist-ok accepts it",
    "booleans as row kinds": "convert them in the files",
    "the format of files": "rename it, or use --format parquet, csv or json",
    "create the table": "create the table with txlog create or txlog append --create",
}


def in_commands(word: Word) -> str:
    """The word as a user of the command line reads it."""
    option = OPTIONS.get(word.name)
    if word.kind == "argument" and word.name in of_environment.get():
        return f"TXLOG_{word.name.upper()}"
    if word.kind == "argument" and option is not None:
        return option
    if word.kind == "setting":
        if (word.name, word.value) == ("schema_mode", "merge"):
            return "--merge-schema"
        if option is not None:
            return option if word.value is True else f"{option} {_shell_word(word.value)}"
    if word.kind == "call" and word.name == "set_properties":
        return f"txlog set URI {' '.join(f'{key}={value}' for key, value in word.value.items())}"
    if word.kind == "call" and word.name == "unset_properties":
        return f"txlog set URI {' '.join(f'--unset {key}' for key in word.value)}"
    if word.kind == "advice":
        return _ADVICE.get(word.name) or spelled(word.value, in_commands)
    return in_python(word) + (
        " (in Python)" if word.kind in ("argument", "setting") and word.name in _PYTHON_ONLY else ""
    )


def _shell_word(value: object) -> str:
    return "tab" if value == "\t" else shlex.quote(str(value))


_PYTHON_ONLY = {"fingerprint", "isolation", "on_mismatch", "schema_mode", "update_columns"}
"""Arguments without an option in any command."""
