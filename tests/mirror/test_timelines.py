"""Whether a standby that took over has all that a table has, by the timelines of its log."""

from __future__ import annotations

import pytest

from txlog.mirror.timelines import ends_in, why_not

HISTORY = "1\t0/3000158\tno recovery target specified\n\n2\t1/A\tbefore 2026-11-20\n# a comment\n"
ENDS = {1: 0x3000158, 2: 0x1_0000_000A}


def test_a_history_file_says_where_each_timeline_ended() -> None:
    assert ends_in(HISTORY) == ENDS
    assert ends_in("") == {}


@pytest.mark.parametrize(
    ("stood_on", "position", "timeline", "told"),
    [
        (3, 0x2_0000_0000, 3, None),
        (0, 0x2_0000_0000, 3, None),
        (1, 0x3000158, 3, None),
        (1, 0x3000159, 3, "it took over at 0/3000158, as timeline 3, and the tables have changes up to 0/3000159"),
        (2, 0x1_0000_000A, 3, None),
        (2, 0x1_0000_000B, 3, "it took over at 1/A"),
        (4, 5, 3, "timeline 3, does not come from timeline 4"),
    ],
)
def test_a_log_goes_on_from_what_was_before_the_take_over(
    stood_on: int, position: int, timeline: int, told: str | None
) -> None:
    found = why_not(stood_on, position, timeline, ENDS)
    assert found is None if told is None else told in str(found)
