"""`HoldsBack` and `InSequence`: what a story's checkpoint holds back, and what an older change leaves as it is."""

from __future__ import annotations

import pytest

from explorer.effects import HoldsBack, InSequence
from explorer.rows import RowHistory, file_of
from explorer.versions import InvariantBroken
from txlog.testing.memory_store import MemoryFileStore

HELD = HoldsBack((("+U", 1, "b", 5), ("-D", 2, None, None), ("-D", 7, None, None)))
FITS = [(1, "a", 0), (2, "a", 0)]
TWINS = [(1, "a", 0), (1, "b", 0), (2, "a", 0)]
OF_1, OF_7 = (("+U", 1, "b", 5), "several"), (("-D", 7, None, None), "missing")


def test_changes_of_several_rows_and_deletes_of_none_are_held_back_and_all_others_are_applied() -> None:
    assert HELD.misfits(FITS) == {7: "missing"}
    assert HELD.misfits(TWINS) == {1: "several", 7: "missing"}
    assert HELD.applied(TWINS, {1: "several", 7: "missing"}) == [(1, "a", 0), (1, "b", 0)]
    HELD.check([OF_1, OF_7], TWINS, [FITS, TWINS])


def test_what_was_held_back_on_an_earlier_version_may_stay_held_back() -> None:
    HELD.check([OF_1, OF_7], FITS, [TWINS, FITS])
    with pytest.raises(InvariantBroken, match="what does not fit is held back"):
        HELD.check([OF_1, OF_7], FITS, [FITS])


@pytest.mark.parametrize(
    "quarantined",
    [[OF_7], [(("+U", 1, "b", 5), "missing"), OF_7], [(("+U", 1, "b", 6), "several"), OF_7], [OF_1, OF_7, OF_7]],
    ids=["one lacks", "another case", "another value", "one twice"],
)
def test_a_quarantine_with_other_changes_breaks_a_promise(
    quarantined: list[tuple[tuple[str, int, str, int], str]],
) -> None:
    with pytest.raises(InvariantBroken):
        HELD.check(quarantined, TWINS, [TWINS])


def test_an_older_change_has_no_effect_on_rows_and_deleted_keys() -> None:
    rows, buried = InSequence((("-D", 1, None, 20), ("-D", 7, None, 20), ("+U", 2, "b", 3))).applied(FITS, {})
    assert (rows, buried) == ([(2, "b", 3)], {1: 20, 7: 20})
    late = InSequence((("+U", 1, "a", 19), ("+U", 7, "a", 20), ("-D", 2, None, 2)))
    assert late.applied(rows, buried) == ([(2, "b", 3), (7, "a", 20)], buried)


def test_a_deleted_key_that_a_version_lacks_breaks_a_promise() -> None:
    files = MemoryFileStore()
    files.write("a", file_of(((1, 10),)))
    add = {"path": "a", "partitionValues": {"part": "p"}, "dataChange": True}
    history = RowHistory(files)
    history.appears(1, [{"add": add}], {"a": add}, None)
    with pytest.raises(InvariantBroken, match="a deleted key is kept"):
        history.appears(2, [{"remove": add}], {}, None, InSequence((("-D", 1, None, 20),)))


def test_a_commit_that_names_a_quarantine_that_is_not_on_disk_breaks_a_promise() -> None:
    told = {"commitInfo": {"operationParameters": {"quarantine": "_txlog/quarantine/x.parquet", "heldBack": "1"}}}
    with pytest.raises(InvariantBroken, match="what is held back is kept"):
        RowHistory(MemoryFileStore()).appears(1, [told], {}, None)
