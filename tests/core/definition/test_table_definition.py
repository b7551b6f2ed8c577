"""What a definition may say: a log retention below a day is refused unless the table says that it is meant."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError

SCHEMA = pa.schema([("id", pa.int64())])
RETENTION, ALLOWED = "delta.logRetentionDuration", "txlog.allowShortLogRetention"


@pytest.mark.parametrize("retention", ["interval 0 seconds", "interval 4 hours", "23 hours 59 minutes"])
def test_a_short_log_retention_is_refused_when_a_table_is_created(tmp_path: Path, retention: str) -> None:
    with pytest.raises(InvalidInputError, match=r"1 day.*txlog\.allowShortLogRetention"):
        txlog.Table.create(tmp_path / "t", SCHEMA, properties={RETENTION: retention})
    assert not txlog.Table.exists(tmp_path / "t")


def test_a_short_log_retention_is_refused_on_a_table_that_exists(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(InvalidInputError, match=r"1 day.*txlog\.allowShortLogRetention"):
        table.set_properties({RETENTION: "interval 1 hour"})
    assert table.snapshot().version == 0


@pytest.mark.parametrize("retention", ["interval 1 day", "24 hours", "interval 60 days"])
def test_a_log_retention_of_a_day_or_more_is_taken(tmp_path: Path, retention: str) -> None:
    table = txlog.Table.create(tmp_path / "t", SCHEMA, properties={RETENTION: retention})
    table.set_properties({RETENTION: "interval 2 days"})
    assert table.snapshot().properties == {RETENTION: "interval 2 days"}


def test_a_short_log_retention_is_accepted_if_the_property_allows_it(tmp_path: Path) -> None:
    meant = {RETENTION: "interval 1 hour", ALLOWED: "true"}
    assert txlog.Table.create(tmp_path / "t", SCHEMA, properties=meant).snapshot().properties == meant
    table = txlog.Table.create(tmp_path / "u", SCHEMA)
    table.set_properties(meant)
    table.set_properties({RETENTION: "interval 2 hours"})
    assert table.snapshot().properties == {**meant, RETENTION: "interval 2 hours"}


@pytest.mark.parametrize("given", [{"TXLOG.allowshortlogretention": "TRUE"}, {ALLOWED: True}])
def test_the_property_that_allows_a_short_retention_is_taken_in_any_case_and_as_a_boolean(
    tmp_path: Path, given: dict[str, object]
) -> None:
    """Spark lower-cases the names of options."""
    table = txlog.Table.create(tmp_path / "t", SCHEMA, properties={RETENTION: "interval 1 hour", **given})  # type: ignore[dict-item]
    assert table.snapshot().properties[ALLOWED] == "true"


def test_a_table_that_others_gave_a_short_retention_takes_changes_of_other_properties(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", SCHEMA, properties={RETENTION: "interval 1 hour", ALLOWED: "true"})
    commit = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace(ALLOWED, "made-by-others"))
    table = txlog.Table.open(tmp_path / "t")
    table.set_properties({"team": "x"})
    assert table.snapshot().properties["team"] == "x"
    table.append(pa.table({"id": [1]}))
    assert table.snapshot().num_files == 1


def test_the_property_that_allows_a_short_retention_stays_while_the_retention_is_short(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", SCHEMA, properties={RETENTION: "interval 1 hour", ALLOWED: "true"})
    with pytest.raises(InvalidInputError, match="1 day"):
        table.unset_properties([ALLOWED])
    table.unset_properties([RETENTION, ALLOWED])
    assert table.snapshot().properties == {}


def test_a_partition_column_is_not_listed_among_columns_with_statistics(tmp_path: Path) -> None:
    properties = {"delta.dataSkippingStatsColumns": "day"}
    with pytest.raises(InvalidInputError, match=r"names 'day', which is not a data column of the table \(id, v\)"):
        txlog.Table.create(tmp_path / "t", {"id": pa.int64(), "day": pa.string(), "v": pa.int64()}, ["day"], properties)
