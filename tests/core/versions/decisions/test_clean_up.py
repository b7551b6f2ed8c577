"""What a log cleanup may take, decided from names and times alone."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.log_names import (
    checkpoint_name,
    checksum_name,
    commit_name,
    compacted_name,
    multipart_names,
    v2_checkpoint_name,
)
from txlog.core.format.properties import TableProperties
from txlog.core.store import ObjectMeta
from txlog.core.versions.decisions.clean_up import (
    cutoff_ms,
    kept_checkpoints,
    plan_sidecars,
    plan_versions,
    protected_version,
)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
DAY_MS = 86_400_000


def listed(*names: str, modified_ms: int = 0) -> list[ObjectMeta]:
    return [ObjectMeta(name, 1, modified_ms) for name in sorted(names)]


def commits(last: int) -> list[str]:
    return [commit_name(version) for version in range(last + 1)]


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


def test_the_cutoff_is_the_midnight_before_the_retention_ends() -> None:
    retention = TableProperties(log_retention_ms=2 * DAY_MS)
    assert cutoff_ms(retention, now_ms=moment("2026-11-21T15:30:00")) == moment("2026-11-19T00:00:00")
    assert cutoff_ms(retention, now_ms=moment("2026-11-21T00:00:00")) == moment("2026-11-19T00:00:00")


def test_the_newest_checkpoint_that_time_travel_to_the_cutoff_can_start_from_is_best() -> None:
    files = listed(*commits(30), checkpoint_name(10), checkpoint_name(20), checkpoint_name(30))
    assert [c.version for c in kept_checkpoints(files, cutoff_version=20)] == [20, 10]
    assert [c.version for c in kept_checkpoints(files, cutoff_version=19)] == [10]
    assert kept_checkpoints(files, cutoff_version=9) == []
    assert kept_checkpoints(files, cutoff_version=None) == []


def test_a_checkpoint_of_which_a_part_is_missing_is_no_start() -> None:
    files = listed(*commits(30), checkpoint_name(10), *multipart_names(20, 3)[:2])
    assert [c.version for c in kept_checkpoints(files, cutoff_version=30)] == [10]


def test_protected_versions_are_deleted_together_or_not_at_all() -> None:
    files = listed(*commits(30), checkpoint_name(10), checkpoint_name(20))
    assert [c.version for c in kept_checkpoints(files, cutoff_version=30, protected_version=11)] == [20]
    assert kept_checkpoints(files, cutoff_version=30, protected_version=21) == []


@pytest.mark.parametrize(("text", "protected"), [("12", 12), (None, 0), ("twelve", 2**63 - 1)])
def test_the_tables_properties_decide_which_versions_are_protected(text: str | None, protected: int) -> None:
    key = "delta.requireCheckpointProtectionBeforeVersion"
    metadata = Metadata("i", "{}", (), {} if text is None else {key: text}, {})
    assert protected_version(Protocol(3, 7, (), ("checkpointProtection",)), metadata) == protected
    assert protected_version(Protocol(3, 7, (), ()), metadata) == 0


def test_whole_versions_below_the_checkpoint_go_oldest_first_and_its_commit_stays() -> None:
    files = listed(
        *commits(6),
        *(checksum_name(version) for version in range(7)),
        checkpoint_name(2),
        *multipart_names(3, 2),
        v2_checkpoint_name(3, UUID, "parquet"),
        checkpoint_name(5),
        compacted_name(0, 3),
        compacted_name(5, 6),
        compacted_name(6, 8),
        "_last_checkpoint",
        "notes.txt",
    )
    checkpoint = kept_checkpoints(files, cutoff_version=5)[0]
    gone = [file.name for file in plan_versions(files, checkpoint).files]
    assert gone == [
        compacted_name(0, 3),
        compacted_name(5, 6),
        commit_name(0),
        checksum_name(0),
        commit_name(1),
        checksum_name(1),
        commit_name(2),
        checksum_name(2),
        checkpoint_name(2),
        commit_name(3),
        checksum_name(3),
        *multipart_names(3, 2),
        v2_checkpoint_name(3, UUID, "parquet"),
        commit_name(4),
        checksum_name(4),
    ]


def test_sidecars_go_when_nothing_names_them_and_a_whole_day_has_passed() -> None:
    now_ms = moment("2026-11-21T15:30:00")
    old = listed("_sidecars/a.parquet", "_sidecars/b.parquet", modified_ms=moment("2026-11-19T23:59:59"))
    young = listed("_sidecars/c.parquet", modified_ms=moment("2026-11-20T00:00:00"))
    gone = plan_sidecars([*old, *young], {"_sidecars/b.parquet"}, now_ms=now_ms)
    assert [file.name for file in gone] == ["_sidecars/a.parquet"]
