"""Damaged Parquet footers, and every way to look at them with pyarrow: an accepted footer must not end the process.

In: whole files, a seed and a number. Out: on standard output, how many footers pyarrow could not read, and how many
were refused and accepted; in the journal, the seed of the current footer. A child process runs it, since a wrongly
accepted footer ends it.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hostile_data
import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.arrow.parquet_footer import check_footer, read_footer

_CHUNK = ("physical_type", "num_values", "path_in_schema", "encodings", "has_dictionary_page")
_STATISTICS = ("has_null_count", "null_count", "has_min_max", "min_raw", "max_raw", "min", "max")


def look(metadata: Any) -> None:
    """Ask for everything that the library asks of a footer. Errors that Python sees are as good as answers."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for leaf in range(metadata.num_columns):
            chunk = row_group.column(leaf)
            for name in (*_CHUNK, "total_uncompressed_size"):
                _get(chunk, name)
            statistics = chunk.statistics
            for name in _STATISTICS if statistics is not None else ():
                _get(statistics, name)


def _get(owner: Any, name: str) -> None:
    with contextlib.suppress(ValueError, OverflowError, pa.ArrowException):
        getattr(owner, name)


def outcome(body: bytes) -> str:
    """What becomes of the footer of these bytes; whether it is refused is found out before anyone looks at it."""
    footer = read_footer(pa.BufferReader(body))
    try:
        metadata = pq.ParquetFile(pa.BufferReader(footer)).metadata
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return "unreadable"
    try:
        check_footer(footer, metadata)
    except pa.ArrowInvalid:
        return "refused"
    look(metadata)
    return "let pass"


def main(root: str, journal: str, seed: int, count: int) -> None:
    """In the child."""
    bodies = [path.read_bytes() for path in sorted(Path(root).rglob("*.parquet"))]
    found: Counter[str] = Counter()
    for number in range(seed, seed + count):
        rng = random.Random(number)
        body = hostile_data.damage_footer(rng.choice(bodies), rng)
        Path(journal).write_text(str(number))
        found[outcome(body)] += 1
    print(dict(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
