from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from txlog.core.format.log_names import (
    LogFileKind,
    checkpoint_name,
    checksum_name,
    commit_name,
    compacted_name,
    multipart_names,
    v2_checkpoint_name,
)
from txlog.core.versions.decisions.segment import LogSegment, choose_segment, read_listing

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@dataclass(frozen=True)
class Listed:
    name: str
    size: int = 7
    modified_ms: int = 0


def segment_of(
    *names: str, target: int | None = None, excluded: frozenset[tuple[str, ...]] = frozenset()
) -> LogSegment:
    segment = choose_segment(read_listing([Listed(name) for name in names]), target=target, excluded=excluded)
    assert segment is not None
    return segment


def planned(segment: LogSegment) -> list[str]:
    return [commit_name(each) if isinstance(each, int) else each.name for each in segment.plan()]


COMMITS = [commit_name(version) for version in range(8)]


def test_a_listing_of_unknown_names_has_no_log_segment() -> None:
    listing = read_listing([Listed("_last_checkpoint"), Listed(checksum_name(3)), Listed("part-0.parquet")])
    assert choose_segment(listing) is None
    assert choose_segment(listing, target=3) is None


def test_without_a_checkpoint_every_commit_is_planned() -> None:
    assert planned(segment_of(*COMMITS)) == COMMITS


def test_the_newest_checkpoint_up_to_the_target_is_taken() -> None:
    names = [*COMMITS, checkpoint_name(2), checkpoint_name(5)]
    assert planned(segment_of(*names)) == COMMITS[6:]
    assert planned(segment_of(*names, target=5)) == []
    assert planned(segment_of(*names, target=4)) == COMMITS[3:5]
    assert planned(segment_of(*names, target=1)) == COMMITS[:2]


def test_a_commit_that_a_listing_does_not_show_is_planned_all_the_same() -> None:
    assert planned(segment_of(COMMITS[0], COMMITS[3])) == COMMITS[:4]


def test_a_checkpoint_newer_than_every_commit_is_the_newest_version() -> None:
    segment = segment_of(COMMITS[0], checkpoint_name(9))
    assert (segment.version, planned(segment)) == (9, [])


def test_a_multi_part_checkpoint_counts_only_when_whole() -> None:
    parts = multipart_names(6, 3)
    assert segment_of(*COMMITS, *parts).first_commit == 7
    assert segment_of(*COMMITS, *parts[:2]).first_commit == 0
    # Three names of two different writings are not a whole checkpoint of three.
    assert segment_of(*COMMITS, *parts[:2], multipart_names(6, 2)[0]).first_commit == 0


def test_a_multi_part_checkpoint_is_named_whole_in_order_and_its_sizes_are_added() -> None:
    parts = multipart_names(6, 3)
    checkpoint = segment_of(*COMMITS, *reversed(parts)).checkpoint
    assert checkpoint is not None
    assert (checkpoint.names, checkpoint.size_bytes) == (parts, 21)


@pytest.mark.parametrize("single", [checkpoint_name(6), v2_checkpoint_name(6, UUID, "json")])
def test_a_single_file_is_preferred_to_parts_of_the_same_version(single: str) -> None:
    checkpoint = segment_of(*COMMITS, single, *multipart_names(6, 2)).checkpoint
    assert checkpoint is not None
    assert checkpoint.kind is not LogFileKind.MULTIPART_CHECKPOINT


def test_an_excluded_checkpoint_is_passed_over() -> None:
    names = [*COMMITS, checkpoint_name(2), checkpoint_name(5)]
    excluded = frozenset({(checkpoint_name(5),)})
    assert segment_of(*names, excluded=excluded).first_commit == 3
    assert segment_of(*names, excluded=excluded | {(checkpoint_name(2),)}).first_commit == 0


def test_compacted_files_replace_the_commits_they_cover() -> None:
    names = [*COMMITS, compacted_name(1, 3), compacted_name(5, 6)]
    assert planned(segment_of(*names)) == [
        COMMITS[0],
        compacted_name(1, 3),
        COMMITS[4],
        compacted_name(5, 6),
        COMMITS[7],
    ]


def test_a_compacted_file_must_fit_whole_between_checkpoint_and_target() -> None:
    names = [*COMMITS, checkpoint_name(2), compacted_name(2, 4), compacted_name(6, 9), compacted_name(5, 7)]
    assert planned(segment_of(*names, target=6)) == COMMITS[3:7]


def test_overlapping_compacted_files_are_never_both_used() -> None:
    names = [*COMMITS, compacted_name(1, 3), compacted_name(1, 5), compacted_name(4, 6)]
    assert planned(segment_of(*names)) == [COMMITS[0], compacted_name(1, 5), *COMMITS[6:]]


def test_any_plan_covers_each_version_after_the_checkpoint_exactly_once() -> None:
    chance = random.Random(7)
    for _ in range(300):
        names = [commit_name(version) for version in range(12)]
        names += [checkpoint_name(chance.randrange(12)) for _ in range(chance.randrange(3))]
        for _ in range(chance.randrange(5)):
            low = chance.randrange(12)
            names.append(compacted_name(low, low + chance.randrange(6)))
        target = chance.choice([None, chance.randrange(12)])
        segment = segment_of(*names, target=target)
        covered: list[int] = []
        for each in segment.plan():
            covered += [each] if isinstance(each, int) else range(each.first_version, each.version + 1)
        assert covered == list(range(segment.first_commit, segment.version + 1))
        assert segment.version == (11 if target is None else target)


def test_a_segment_grows_with_its_commits_and_shrinks_with_a_checkpoint() -> None:
    segment = LogSegment(9, None, (), 1000).extended(100)
    assert (segment.version, segment.tail_commits, segment.tail_bytes) == (10, 11, 1100)
    checkpoint = segment_of(checkpoint_name(10)).checkpoint
    assert checkpoint is not None
    shorter = segment.checkpointed(checkpoint)
    assert (shorter.first_commit, shorter.tail_commits, shorter.tail_bytes) == (11, 0, 0)
