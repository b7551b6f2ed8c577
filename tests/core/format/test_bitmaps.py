"""Sets of positions agree with Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.bitmaps import are_absent, are_among, bitmap_of, is_in, numbers_of

POSITIONS = st.sets(st.one_of(st.integers(0, 12), st.integers(2**33, 2**33 + 2)))


@given(POSITIONS, POSITIONS)
def test_bitmaps_have_the_members_and_unions_of_sets(mine: set[int], others: set[int]) -> None:
    first, second = (np.array(sorted(each), dtype=np.uint64) for each in (mine, others))
    expected = [each in others for each in sorted(mine)]
    assert are_among(first, second).tolist() == expected
    assert is_in(first, bitmap_of(second)).tolist() == expected
    assert is_in(first[::-1], bitmap_of(second)).tolist() == expected[::-1]
    assert are_absent(first[::-1], bitmap_of(second)).tolist() == [not each for each in expected[::-1]]
    found = numbers_of(bitmap_of(first) | bitmap_of(second))
    assert found.dtype == np.uint64
    assert found.tolist() == sorted(mine | others)
