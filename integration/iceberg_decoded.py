"""What other libraries see in the exported metadata: fastavro decodes every Avro file, without txlog."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from txlog.core.store import TableStore


def document(store: TableStore, number: int | None = None) -> dict[str, Any]:
    """The metadata file that the hint names, or one by its number."""
    assert store.iceberg is not None
    number = int(store.iceberg.read("version-hint.text")) if number is None else number
    loaded: dict[str, Any] = json.loads(store.iceberg.read(f"v{number}.metadata.json"))
    return loaded


def avro(store: TableStore, path: str) -> list[dict[str, Any]]:
    assert store.iceberg is not None
    body = store.iceberg.read(path.rpartition("/")[2])
    return [dict(record) for record in fastavro.reader(io.BytesIO(body))]  # type: ignore[arg-type]


def manifests(store: TableStore, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    return avro(store, snapshot["manifest-list"])


def live_entries(store: TableStore, snapshot: dict[str, Any], content: int = 0) -> dict[str, dict[str, Any]]:
    """The live entries of a snapshot by the path of the data file that they are about; each path only once."""
    found: dict[str, dict[str, Any]] = {}
    for manifest in manifests(store, snapshot):
        if manifest["content"] != content:
            continue
        for entry in avro(store, manifest["manifest_path"]):
            if entry["status"] == 2:
                continue
            file = entry["data_file"]
            about = file["referenced_data_file"] if content else file["file_path"]
            assert about not in found, f"{about} is live twice"
            found[about] = entry
    return found
