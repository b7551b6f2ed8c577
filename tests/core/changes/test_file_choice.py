"""Which files a row change looks into is decided by the log alone, and each file is judged once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from txlog.core.changes.plan import _file_choice
from txlog.core.changes.plan._file_choice import FileChoice, LiveFiles
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, FileId, LiveKey, RemoveFile
from txlog.core.format.commit_file import Commit
from txlog.core.format.file_columns import adds_to_batch
from txlog.core.versions.decisions.files import fold_commits, reconcile

FILES = [AddFile(name, {}, 1, 2, True, None) for name in ("none", "some", "all")]
NONE, SOME, ALL = FILES


class Judged:
    """Judges files by their names, and remembers which it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def candidates(self, files: pa.Table) -> Any:
        paths = files.column("path").to_pylist()
        self.asked += paths
        return np.array([path != "none" for path in paths])

    def matches_whole_file(self, add: AddFile) -> bool:
        return add.path == "all"


class Known:
    """What was looked into, and what is recalled."""

    def __init__(self, *known: LiveKey, recalled: tuple[FileId, ...] = ()) -> None:
        self.known = known
        self.recalled = recalled
        self.were_all_live: list[bool] = []

    def knows(self, key: LiveKey) -> bool:
        return key in self.known

    def recall(self, files: Sequence[FileId], *, are_all_live: bool) -> tuple[FileId, ...]:
        self.were_all_live.append(are_all_live)
        return self.recalled


def live(*adds: AddFile) -> LiveFiles:
    return LiveFiles.of(pa.Table.from_batches([adds_to_batch(adds)]))


@pytest.fixture
def judged() -> Judged:
    return Judged()


def test_a_file_has_no_match_or_goes_as_a_whole_or_is_looked_into(judged: Judged) -> None:
    choice = FileChoice(judged)
    assert choice.new(live(*FILES), Known()) == [SOME]
    assert (choice.excluded, choice.whole) == ({NONE.live_key}, {ALL.live_key})


def test_files_that_matter_keep_their_names_whichever_of_them_were_recalled(judged: Judged) -> None:
    first, second = (AddFile(name, {}, 1, 2, True, None) for name in ("first", "second"))
    for recalled in ((first,), (second,), (first, second)):
        choice, files = FileChoice(judged), live(first, second)
        looked = Known(recalled=tuple(add.file_id for add in recalled))
        choice.new(files, looked)
        mattering = choice.mattering(files, looked)
        assert mattering.keys == LiveFiles.of(mattering.table).keys == [first.live_key, second.live_key]


def test_a_file_is_judged_once_and_one_that_was_looked_into_is_not_chosen_again(judged: Judged) -> None:
    choice = FileChoice(judged)
    choice.new(live(*FILES), Known())
    assert choice.new(live(*FILES), Known(SOME.live_key)) == []
    later = AddFile("later", {}, 1, 2, True, None)
    assert choice.new(live(*FILES, later), Known(SOME.live_key)) == [later]
    assert judged.asked == ["none", "some", "all", "later"]


def test_a_file_with_another_vector_is_judged_by_its_own_statistics(judged: Judged) -> None:
    choice = FileChoice(judged)
    choice.new(live(*FILES), Known())
    choice.new(live(replace(NONE, deletion_vector=DeletionVectorDescriptor("u", "v", 1, 1, 1))), Known())
    assert judged.asked == ["none", "some", "all", "none"]


def test_a_file_that_was_removed_meanwhile_is_judged_again(judged: Judged) -> None:
    choice = FileChoice(judged)
    choice.new(live(*FILES), Known())
    choice.forget({SOME.live_key})
    assert choice.new(live(*FILES), Known(SOME.live_key)) == []
    assert judged.asked == ["none", "some", "all", "none", "all"]


def test_a_recalled_file_is_not_judged_and_only_a_look_at_all_files_says_so(judged: Judged) -> None:
    choice, known = FileChoice(judged), Known(recalled=(SOME.file_id,))
    assert choice.new(live(*FILES), known) == []
    assert choice.new(live(*FILES, AddFile("later", {}, 1, 2, True, None)), Known()) != []
    assert judged.asked[:2] == ["none", "all"]
    assert known.were_all_live == [True]


def test_some_files_are_taken_from_a_list_with_more_text_than_one_array_holds() -> None:
    """All chunks are the same memory."""
    one = pa.Table.from_batches([adds_to_batch([replace(SOME, stats="x" * (64 << 20))])])
    many = pa.concat_tables([one] * 40)
    with pytest.raises(pa.ArrowInvalid):
        many.take([0])
    files = LiveFiles(many, [SOME.live_key] * 40)
    assert files.at([39]).table.column("path").to_pylist() == ["some"]


def test_files_after_commits_are_those_of_the_log_as_actions_or_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (AddFile(name, {}, 1, 2, True, None) for name in ("a%20b", "second", "third"))
    vector = DeletionVectorDescriptor("u", "v", 1, 1, 1)
    marked = replace(second, deletion_vector=vector, extra={"unknown": 1})
    gone = RemoveFile("a b", deletion_timestamp=1)  # another spelling
    commits = [
        Commit(1, (gone, second.removed(deletion_timestamp=1, data_change=True), marked), None, 0),
        Commit(2, (AddFile("gone", {}, 1, 2, True),), None, 0),
        Commit(3, (RemoveFile("gone", deletion_timestamp=1), AddFile("new", {}, 1, 2, True)), None, 0),
    ]
    wanted = reconcile(live(first, second, third).table.to_batches(), fold_commits(commits))
    few = live(first, second, third).after(commits[:1]).after(commits[1:])
    monkeypatch.setattr(_file_choice, "FEW_FILES", 0)
    many = live(first, second, third).after(commits[:1]).after(commits[1:])
    assert isinstance(few.listed, list)
    assert isinstance(many.listed, pa.Table)
    for files in (few, many, few.at([0, 1, 2])):
        assert files.table.equals(wanted)
        assert files.keys == LiveFiles.of(wanted).keys
        assert files.adds([0, 2]) == LiveFiles.of(wanted).adds([0, 2])
        assert files.at([1]).table.equals(files.take([1]))
