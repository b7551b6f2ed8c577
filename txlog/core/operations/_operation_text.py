"""What a commit did, as short strings for people: the operation with its important parameters, rows, files, bytes.

In: a history entry as txlog, Spark or deltalake wrote it; each uses its own names and formats. Out: short strings,
empty if the commit does not record the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from txlog.result import human_size

Entry = Mapping[str, Any]

_INSERTED = ("numTargetRowsInserted", "numOutputRows", "numAddedRows")
_UPDATED = ("numTargetRowsUpdated", "numUpdatedRows")
_DELETED = ("numTargetRowsDeleted", "numDeletedRows")
_ADDED_FILES = ("numTargetFilesAdded", "numAddedFiles", "numRestoredFiles", "numFiles")
_REMOVED_FILES = ("numTargetFilesRemoved", "numRemovedFiles")
_BYTES = ("numTargetBytesAdded", "numAddedBytes", "numOutputBytes")


def described(entry: Entry) -> str:
    """``WRITE overwrite``, ``DELETE where id = 1``, ``SET TBLPROPERTIES delta.appendOnly=true``, ``RENAME COLUMN a to
    b``; ``WRITE append, 5 in one`` for the appends of several callers."""
    operation = str(entry.get("operation") or "unknown")
    parameters = entry.get("operationParameters")
    found = _decoded(parameters) if isinstance(parameters, Mapping) else {}
    details = [
        text for tell in (_mode, _condition, _properties, _columns, _changes, _identity) if (text := tell(found))
    ]
    return " ".join([operation, *details]) + _joined(entry)


def _joined(entry: Entry) -> str:
    own = entry.get("txlog")
    listed = own.get("joined") if isinstance(own, Mapping) else None
    return f", {len(listed)} in one" if isinstance(listed, list) and listed else ""


def rows_changed(entry: Entry) -> str:
    """``+3``, ``~2 -1``: rows added, changed and deleted."""
    metrics = _metrics(entry)
    is_merge = "numTargetRowsInserted" in metrics or not metrics.keys().isdisjoint((*_UPDATED, *_DELETED))
    inserted = _first(metrics, _INSERTED[:1] if is_merge else _INSERTED)
    if "numOutputRows" in metrics and "numCopiedRows" in metrics:  # copied rows are not new
        inserted = metrics["numOutputRows"] - metrics["numCopiedRows"]
    return _signed(inserted, _first(metrics, _UPDATED), _first(metrics, _DELETED))


def files_changed(entry: Entry) -> str:
    """``+3 -1``: files added and removed."""
    metrics = _metrics(entry)
    return _signed(_first(metrics, _ADDED_FILES), None, _first(metrics, _REMOVED_FILES))


def bytes_written(entry: Entry) -> str:
    size_bytes = _first(_metrics(entry), _BYTES)
    return human_size(size_bytes) if size_bytes else ""


# --- parameters -------------------------------------------------------------------------------------------------


def _decoded(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The value of a parameter. Most are JSON strings; some writers store the value itself, or a plain string."""
    found = {}
    for name, value in parameters.items():
        try:
            found[str(name)] = orjson.loads(value) if isinstance(value, str) else value
        except orjson.JSONDecodeError:
            found[str(name)] = value
    return found


def _mode(parameters: Mapping[str, Any]) -> str:
    mode, partitioned_by = parameters.get("mode"), parameters.get("partitionBy")
    text = {"errorifexists": "create"}.get(str(mode).lower(), str(mode).lower()) if mode else ""
    if parameters.get("isDynamicPartitionOverwrite") is True and text == "overwrite":
        return "overwrite of partitions"
    if isinstance(partitioned_by, list) and partitioned_by and text != "append" and not parameters.get("predicate"):
        text = f"{text} partitioned by {', '.join(map(str, partitioned_by))}".strip()
    return text


def _condition(parameters: Mapping[str, Any]) -> str:
    condition = parameters.get("predicate") or parameters.get("mergePredicate")
    if isinstance(condition, list):
        condition = " and ".join(map(str, condition))
    if not condition:
        return ""
    return f"{'on' if 'matchedPredicates' in parameters else 'where'} {condition}"


def _properties(parameters: Mapping[str, Any]) -> str:
    properties = parameters.get("properties")
    if isinstance(properties, Mapping):
        return ", ".join(f"{key}={value}" for key, value in properties.items())
    return ", ".join(map(str, properties)) if isinstance(properties, list) else ""


def _columns(parameters: Mapping[str, Any]) -> str:
    if "oldColumnPath" in parameters:
        return f"{parameters['oldColumnPath']} to {parameters.get('newColumnPath')}"
    columns = parameters.get("columns", [parameters["column"]] if "column" in parameters else None)
    if not isinstance(columns, list):
        return ""
    found = (column.get("column", column) if isinstance(column, Mapping) else column for column in columns)
    return ", ".join(str(column.get("name", "?") if isinstance(column, Mapping) else column) for column in found)


def _changes(parameters: Mapping[str, Any]) -> str:
    """Several changes of a definition in one version."""
    changes = parameters.get("changes")
    if not isinstance(changes, list):
        return ""
    return "; ".join(described({**each, "operationParameters": each}) for each in changes if isinstance(each, Mapping))


def _identity(parameters: Mapping[str, Any]) -> str:
    version = parameters.get("version")
    if version is not None:
        return f"to version {version}"
    epoch = parameters.get("epochId")
    return "" if epoch is None else f"epoch {epoch}"


# --- metrics ----------------------------------------------------------------------------------------------------


def _metrics(entry: Entry) -> dict[str, int]:
    """The metrics by Spark's names; deltalake spells them ``num_added_files``."""
    metrics = entry.get("operationMetrics")
    found = {}
    for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
        state, *rest = str(name).split("_")
        text = str(value)
        if text.isdecimal():
            found[state + "".join(part.capitalize() for part in rest)] = int(text)
    return found


def _first(metrics: Mapping[str, int], names: tuple[str, ...]) -> int | None:
    return next((metrics[name] for name in names if name in metrics), None)


def _signed(added: int | None, changed: int | None, removed: int | None) -> str:
    parts = [f"{sign}{number:,}" for sign, number in (("+", added), ("~", changed), ("-", removed)) if number]
    return " ".join(parts)
