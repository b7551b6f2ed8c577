"""Sets of positions agree with Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from txlog.commands.row_change.positions import are_among, union

POSITIONS = st.sets(st.one_of(st.integers(0, 12), st.integers(2**33, 2**33 + 2)))


@given(POSITIONS, POSITIONS)
def test_members_and_unions_are_those_of_sets(mine: set[int], others: set[int]) -> None:
    first, second = (np.array(sorted(each), dtype=np.uint64) for each in (mine, others))
    assert are_among(first, second).tolist() == [each in others for each in sorted(mine)]
    rest = np.array(sorted(mine - others), dtype=np.uint64)
    found = union(rest, second)
    assert found.dtype == np.uint64
    assert found.tolist() == sorted(mine | others)
