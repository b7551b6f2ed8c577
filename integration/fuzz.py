"""How long the fuzzers hunt, and where they begin.

``TXLOG_FUZZ_S``: seconds for each; ``TXLOG_FUZZ_SEED``: the first seed, or ``random``. Left alone they begin at the
same seed each time, so that no change fails for damage that it has nothing to do with; `make fuzz` looks further.
"""

from __future__ import annotations

import os
import random

__all__ = ["budget_s", "first_seed"]


def budget_s(default: float) -> float:
    """Seconds to spend."""
    return float(os.environ.get("TXLOG_FUZZ_S", default))


def first_seed() -> int:
    """The seed of the first case; the next ones count on from it."""
    asked = os.environ.get("TXLOG_FUZZ_SEED", "0")
    return random.SystemRandom().randrange(2**32) if asked == "random" else int(asked)
