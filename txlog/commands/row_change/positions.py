"""Sets of positions in one file, as ascending arrays.

In: positions, ascending and without duplicates. Out: the same. NumPy's own set functions sort or hash first, which
costs more than everything else if a change has few rows in many files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["are_among", "union"]


def are_among(positions: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of ``positions`` are among ``others``."""
    import numpy as np

    if not len(others):
        return np.zeros(len(positions), dtype=bool)
    places = np.searchsorted(others, positions)
    found: NDArray[np.bool_] = others[np.minimum(places, len(others) - 1)] == positions
    return found


def union(positions: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The union of two sets that have no position in common."""
    import numpy as np

    both = np.concatenate((others, positions))
    both.sort(kind="stable")  # merges two sorted runs
    return both
