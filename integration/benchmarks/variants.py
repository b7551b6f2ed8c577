"""Variants: texts of JSON parsed, beside Arrow's own JSON reader; and the files that a filter on a part opens.

Arrow's reader makes typed columns of the same texts, which it gets as one text of lines.
"""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.json

import txlog
from benchmarks.measure import Bench, Sample, cpu_p50, in_turns, markdown_table, times
from txlog import variant

TITLE = "Variants"

_KINDS = ("click", "view", "buy")
_PAIRS = {
    "variant_get(body, '$.at', 'long') > {}": "at > {}",
    "body:at::int = {}": "at = {}",
    "body:user.name::string = 'user {}'": "name = 'user {}'",
}


def run(bench: Bench) -> str:
    rows, rounds = bench.scale((1_000_000, 3), (2_000, 2))
    bench.say(f"parsing {rows:,} texts")
    found = {name: _parsed(bench, name, texts, rounds) for name, texts in _texts(rows).items()}
    header = [f"{rows:,} objects", "txlog, CPU s", "Arrow's JSON reader, CPU s", "txlog's : Arrow's"]
    table = markdown_table(header, [_row(name, samples) for name, samples in found.items()])
    return f"{table}\n\n{_filters(bench, bench.scale(1_000, 10))}"


def _texts(rows: int) -> dict[str, list[str]]:
    events = (
        {
            "id": at,
            "kind": _KINDS[at % 3],
            "price": at % 10_000 / 100,
            "ok": at % 3 > 0,
            "user": {"name": f"user {at * 7919 % 1000}", "at": f"2026-01-{at % 28 + 1:02}T00:00:00"},
        }
        for at in range(rows)
    )
    return {
        "a number and a string, 19 to 25 bytes": [json.dumps({"a": at, "b": f"x{at}"}) for at in range(rows)],
        "seven fields in two objects, some 115 bytes": [json.dumps(event) for event in events],
    }


def _parsed(bench: Bench, name: str, texts: list[str], rounds: int) -> dict[str, list[Sample]]:
    column, lines = pa.array(texts), "\n".join(texts).encode()
    return in_turns(
        bench,
        {
            "txlog": lambda: variant.parse_json(column),
            "arrow": lambda: pyarrow.json.read_json(io.BytesIO(lines)),
        },
        rounds,
        warm_up=1,
        texts=name,
    )


def _row(name: str, samples: dict[str, list[Sample]]) -> tuple[str, ...]:
    ours, arrows = (cpu_p50(samples[who]) / 1e3 for who in ("txlog", "arrow"))
    return name, f"{ours:.2f}", f"{arrows:.2f}", times(arrows, ours)


def _filters(bench: Bench, files: int) -> str:
    """How many files a filter opens: on a part of a shredded variant, and on a plain column of the same values."""
    bench.say(f"writing {files:,} files")
    columns = "at bigint, name string, body variant"
    table = txlog.Table.create(bench.folder("variants"), columns, properties={"delta.enableVariantShredding": "true"})
    with table.transaction() as transaction:
        for first in range(0, files * 10, 10):
            ats = range(first, first + 10)
            names = [f"user {at}" for at in ats]
            bodies = [{"at": at, "user": {"name": name}} for at, name in zip(ats, names, strict=True)]
            transaction.append(pa.table({"at": ats, "name": names, "body": variant.from_python(bodies)}))
    snapshot = table.snapshot()
    value = files * 10 - 95
    opened = [
        (f"`{text}`", *(f"{snapshot.files(where=each).num_rows:,}" for each in (text, plain)), f"`{plain}`")
        for text, plain in ((part.format(value), plain.format(value)) for part, plain in _PAIRS.items())
    ]
    header = [f"filter on a part of a variant, {files:,} files", "files", "files of the column's filter", "that filter"]
    return markdown_table(header, opened)
