"""Columns whose texts a collation compares: they are read, and refused wherever it matters how texts compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import txlog
from txlog.errors import UnsupportedFeatureError
from txlog.table import Table


def collated(path: Path, name: str = "icu.UTF8_LCASE") -> Table:
    """A table as an engine with collations leaves it."""
    table = Table.create(path / "t", "id int, name string")
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["Ann", "ann"]}))
    log = path / "t" / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    metadata = next(line for line in lines if "metaData" in line)
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"][1]["metadata"] = {"__COLLATIONS": {"name": name}}
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    writers = ["appendOnly", "invariants", "domainMetadata", "collations"]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": writers}}
    changed = [{"commitInfo": {"operation": "CHANGE COLUMN"}}, protocol, metadata]
    (log / f"{2:020}.json").write_text("".join(json.dumps(line) + "\n" for line in changed))
    return Table.open(table.uri)


def test_a_column_with_a_collation_is_read(tmp_path: Path) -> None:
    table = collated(tmp_path)
    assert sorted(table.to_arrow().column("name").to_pylist()) == ["Ann", "ann"]
    assert table.to_arrow(where="id = 1").column("name").to_pylist() == ["Ann"]


@pytest.mark.parametrize(
    "read",
    [
        lambda table: table.to_arrow(where="name = 'ANN'"),
        lambda table: table.to_arrow(where="id = 1 or upper(name) < 'B'"),
        lambda table: table.to_arrow(where=txlog.col("name") == "ANN"),
        lambda table: table.to_arrow(where=pc.field("name") == "ANN"),
        lambda table: table.snapshot().files("name > 'a'"),
    ],
)
def test_a_condition_on_a_column_with_a_collation_is_refused(tmp_path: Path, read: Callable[[Table], Any]) -> None:
    with pytest.raises(
        UnsupportedFeatureError, match=r"column name compares its texts by the collation icu\.UTF8_LCASE"
    ):
        read(collated(tmp_path))


def test_a_collation_that_compares_bytes_does_not_matter(tmp_path: Path) -> None:
    table = collated(tmp_path, "spark.UTF8_BINARY")
    assert table.to_arrow(where="name = 'ann'").column("id").to_pylist() == [2]


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.append(pa.table({"id": pa.array([3], pa.int32()), "name": ["x"]})),
        lambda table: table.delete("id = 1"),
        lambda table: table.optimize(),
    ],
)
def test_writes_are_refused_and_name_the_feature(tmp_path: Path, write: Callable[[Table], Any]) -> None:
    with pytest.raises(UnsupportedFeatureError, match="collations"):
        write(collated(tmp_path))
