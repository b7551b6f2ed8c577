"""Which unseen commits forbid an overwrite, and which files they leave alone: the decision as a pure function."""

from __future__ import annotations

import pytest

from txlog.core.format.actions import Action, AddFile, CommitInfo, RemoveFile
from txlog.core.format.commit_file import Commit
from txlog.core.format.schema import LONG, STRING, Field, Struct
from txlog.core.predicates import col
from txlog.core.predicates.terms.predicate import bind
from txlog.core.versions.decisions.lost_updates import Region, UnseenChanges, unseen_changes
from txlog.core.versions.decisions.proposal import Isolation

SCHEMA = Struct((Field("day", STRING), Field("id", LONG)))
MONDAYS = Region(SCHEMA, ("day",), None, frozenset({("mon",)}), frozenset({"seen"}))
SAME_BY_PREDICATE = Region(SCHEMA, ("day",), bind(col("day") == "mon", SCHEMA), None, frozenset({"seen"}))


def add(path: str, day: str = "mon", *, data_change: bool = True) -> AddFile:
    return AddFile(path, {"day": day}, 1, 0, data_change)


def remove(path: str, day: str = "mon", *, data_change: bool = True) -> RemoveFile:
    return RemoveFile(path, data_change, 1, True, {"day": day}, 1)


def judged(
    region: Region, *given: tuple[Action, ...] | str, own: set[int] | None = None, **options: Isolation
) -> UnseenChanges:
    """Commits after v5; the word "blind" before one declares it a blind append."""
    commits: list[Commit] = []
    is_blind = False
    for each in given:
        if isinstance(each, str):
            is_blind = each == "blind"
            continue
        info = CommitInfo({"operation": "WRITE", "isBlindAppend": is_blind})
        commits.append(Commit(6 + len(commits), each, info, 100))
        is_blind = False
    return unseen_changes(region, commits, own or set(), options.get("isolation", Isolation.WRITE_SERIALIZABLE))


def versions(found: UnseenChanges) -> list[int]:
    return [reason.winner_version for reason in found.reasons]


@pytest.fixture(params=[MONDAYS, SAME_BY_PREDICATE], ids=["partitions", "predicate"])
def region(request: pytest.FixtureRequest) -> Region:
    return request.param  # type: ignore[no-any-return]


def test_commits_outside_of_the_region_do_not_conflict(region: Region) -> None:
    found = judged(region, (add("x", "tue"),), (remove("y", "tue"), add("y2", "tue")), ())
    assert found == UnseenChanges((), frozenset())


@pytest.mark.parametrize("actions", [(add("x"),), (remove("seen"),), (remove("seen"), add("seen"))])
def test_a_change_inside_of_the_region_conflicts(region: Region, actions: tuple[Action, ...]) -> None:
    assert set(versions(judged(region, (), actions))) == {7}


def test_removing_a_file_without_rows_of_the_region_does_not_conflict(region: Region) -> None:
    assert not judged(region, (remove("other"),)).reasons


def test_an_unread_blind_append_conflicts_only_if_the_table_is_serializable(region: Region) -> None:
    found = judged(region, "blind", (add("x"),))
    assert found == UnseenChanges((), frozenset({"x"}))
    strict = judged(region, "blind", (add("x"),), isolation=Isolation.SERIALIZABLE)
    assert (versions(strict), strict.later) == ([6], frozenset())


def test_a_commit_that_calls_itself_blind_and_removes_files_is_not_believed(region: Region) -> None:
    assert versions(judged(region, "blind", (add("x"), remove("seen")))) == [6, 6]


def test_a_rewrite_of_read_rows_does_not_conflict_but_a_later_change_of_them_does(region: Region) -> None:
    moved = (remove("seen", data_change=False), add("moved", data_change=False))
    assert not judged(region, moved).reasons
    assert versions(judged(region, moved, (remove("moved"),))) == [7]


def test_a_rewrite_of_rows_appended_after_the_read_conflicts(region: Region) -> None:
    moved = (remove("x", data_change=False), add("y", data_change=False))
    found = judged(region, "blind", (add("x"),), moved)
    assert versions(found) == [7]
    assert "moved rows of x" in str(found.reasons[0])


def test_own_commits_do_not_conflict_but_later_changes_of_their_rows_do(region: Region) -> None:
    own = (remove("seen"), add("mine"))
    assert not judged(region, own, own={6}).reasons
    assert versions(judged(region, own, (remove("mine"),), own={6})) == [7]
    assert not judged(region, "blind", (add("mine"),), own={6}).later
