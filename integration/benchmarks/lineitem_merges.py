"""Merges into TPC-H's lineitem, of the shapes of duckrun's public scorecard of merges with deltalake.

A mixed upsert of one row in a hundred, four in five of them known; inserts of one in twenty; updates of one in twenty;
and the mixed one again, which changes nothing. Each follows the one before it in the same table. Memory comes first:
it is what ends such merges.
"""

from __future__ import annotations

from benchmarks import bars
from benchmarks.field_merges import SAID_OF_ALL, Plan, Step, merged
from benchmarks.lineitem import ALL_COLUMNS, COLUMNS, KEYS, Lineitem
from benchmarks.measure import Bench
from benchmarks.peers import PEERS, field_of, table_of

TITLE = "TPC-H: merges into lineitem"


def run(bench: Bench) -> str:
    scale_factor, files = bench.scale((1.0, 10), (0.002, 3))
    made = Lineitem(bench, scale_factor)
    bench.say(f"made {made.rows:,} rows")
    known_in_five = f"CASE WHEN hash(l_orderkey, l_linenumber) // 100 % 5 = 0 THEN {made.last_order} ELSE 0 END"
    mixed = made.changed("mixed", 100, shift=known_in_five)
    inserted = made.changed("inserted", 20, shift=str(2 * made.last_order), seed=1)
    steps = [
        Step("mixed upsert, 1 %", mixed),
        Step("inserts alone, 5 %", inserted, "insert"),
        Step("updates alone, 5 %", made.changed("updated", 20, seed=2), "update"),
        Step("the mixed upsert again", mixed),
    ]
    small = made.saved("small", "FROM lineitem ORDER BY l_orderkey LIMIT 1000")
    few = Step("few", made.saved("few", "FROM lineitem ORDER BY l_orderkey LIMIT 20 OFFSET 990"))
    plan = Plan(
        made.files(files),
        KEYS,
        steps,
        small,
        few,
        ALL_COLUMNS,
        COLUMNS,
        is_chain=True,
        limit_s=bench.scale(120.0, 60.0),
    )
    with field_of(bench, PEERS) as field:
        merges, reads = merged(bench, field, plan)
    picture = bars.publish(
        bench, merges, field.names, "Merges into lineitem: how many times txlog's peak memory", "peak_mb"
    )
    return (
        f"{table_of(merges, field.names, reads)}\n\n{picture}\n\n{made.rows:,} rows of 16 columns in {files} files,"
        f" one merge after the other. {SAID_OF_ALL}"
    )
