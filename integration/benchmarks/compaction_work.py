"""One compaction or clustering in a separate process: `compaction_work WORK CONTESTANT TABLE SIZE`.

WORK is ``compact``, or the columns to cluster by, with commas. Time begins with opening the table and ends when the
call returns; a small table comes first, so everything is imported. Memory is the peak above what the process held just
before. Prints a JSON object.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import pyarrow as pa

from benchmarks.bulk import _forget_peak, _status_mb


def rewrite(work: str, contestant: str, table: str, target_bytes: int) -> None:
    columns = None if work == "compact" else work.split(",")
    if contestant == "txlog":
        import txlog

        txlog.Table.open(table).optimize(zorder_by=columns, target_file_size=target_bytes)
        return
    from deltalake import DeltaTable, WriterProperties

    snappy = WriterProperties(compression="SNAPPY")  # txlog's default: both write the same codec
    optimizer = DeltaTable(table).optimize
    if columns is None:
        optimizer.compact(target_size=target_bytes, writer_properties=snappy)
    else:
        optimizer.z_order(columns, target_size=target_bytes, writer_properties=snappy)


def main() -> None:
    work, contestant, table, target_bytes = sys.argv[1:]
    import txlog

    with tempfile.TemporaryDirectory() as small:
        for number in range(2):
            txlog.write(small, pa.table({name: [number] for name in ("x", "y", "z")}))
        rewrite("compact" if work == "compact" else "x,y", contestant, small, 1 << 20)
    base_mb = _forget_peak()
    cpu_s, begin_s = time.process_time(), time.perf_counter()
    rewrite(work, contestant, table, int(target_bytes))
    wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
    print(json.dumps({"wall_ms": wall_s * 1e3, "cpu_ms": cpu_s * 1e3, "extra_mb": _status_mb("VmHWM") - base_mb}))


if __name__ == "__main__":
    main()
