"""What a handle knows of the rows: the version it gave out last, and the versions its user made after that."""

from __future__ import annotations

from txlog.core.versions import _open_table as open_table
from txlog.core.versions._open_table import LastRead


def test_before_the_first_read_nothing_is_known() -> None:
    seen = LastRead()
    seen.committed(3)
    assert seen.version_of("t") is None
    assert not seen.is_own(3)


def test_own_versions_right_after_the_read_count_as_read() -> None:
    seen = LastRead()
    seen.read("t", 3)
    seen.committed(4)
    seen.committed(5)
    assert seen.version_of("t") == 5


def test_own_versions_above_others_are_own_until_the_next_read() -> None:
    seen = LastRead()
    seen.read("t", 3)
    seen.committed(5)
    assert (seen.version_of("t"), seen.is_own(5), seen.is_own(4)) == (3, True, False)
    seen.read("t", 6)
    assert (seen.version_of("t"), seen.is_own(5)) == (6, False)


def test_the_last_read_version_is_unknown_for_another_table_at_the_same_place() -> None:
    seen = LastRead()
    seen.read("t", 3)
    assert seen.version_of("other") is None


def test_a_handle_that_never_reads_again_does_not_remember_versions_without_bound() -> None:
    seen = LastRead()
    seen.read("t", 0)
    for version in range(2, open_table._OWN_MAX + 10):
        seen.committed(version)
    assert seen.is_own(2)
    assert not seen.is_own(open_table._OWN_MAX + 9), "it counts as made by another writer: at worst a conflict"
