"""Counts the functions of txlog that a call on a warm handle passes: integration/passed_functions.py

In: nothing; it makes tables in a temporary folder. Out: a line for each of append, delete, upsert and vacuum, and the
stack of txlog's frames at the put of the append's commit. A benchmark does not see a call of some microseconds, but
whoever reads the path has to open each function on it.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import pyarrow as pa

import txlog
from txlog import Table

__all__ = ["frames_at_put", "functions_passed", "warm_table"]

_TXLOG = str(Path(txlog.__file__).parent)
_NO_FUNCTIONS = {"<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}
ROWS = pa.table({"id": range(1000), "value": [str(each) for each in range(1000)]})
ONE_ROW = pa.table({"id": [5000], "value": ["x"]})
OPERATIONS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(ONE_ROW),
    "delete": lambda table: table.delete("id = 17"),
    "upsert": lambda table: table.upsert(pa.table({"id": [3, 7000], "value": ["a", "b"]}), keys=["id"]),
    "vacuum": lambda table: table.vacuum(),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _passed(f"{folder}/first")  # what is imported on first use is no part of the path
        for name, passed in _passed(f"{folder}/second").items():
            files = {each.co_filename for each in passed}
            print(f"{name:8} {len(passed):4} functions in {len(files):3} files")
        table = warm_table(f"{folder}/third")
        stack = frames_at_put(table)
        table._open_table.post_commit.drain()
    print(f"\n{len(stack)} frames from the call to the put:")
    for code in stack:
        print(f"  {_name(code):60} {Path(code.co_filename).relative_to(_TXLOG)}:{code.co_firstlineno}")


def _passed(location: str) -> dict[str, set[CodeType]]:
    """By operation, all on one handle."""
    table = warm_table(location)
    passed = {name: functions_passed(operation, table) for name, operation in OPERATIONS.items()}
    table._open_table.post_commit.drain()
    return passed


def warm_table(location: str) -> Table:
    """A table with rows, and a handle that has appended to it before."""
    Table.create(location, schema=ROWS.schema)
    table = Table.open(location)
    table.append(ROWS)
    table.append(ONE_ROW)
    return table


def functions_passed(operation: Callable[[Table], object], table: Table) -> set[CodeType]:
    """Txlog's functions that the operation calls, in all threads that it starts."""
    passed: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and _is_function_of_txlog(frame.f_code):
            passed.add(frame.f_code)

    _profiled(profile, lambda: operation(table))
    return passed


def frames_at_put(table: Table) -> list[CodeType]:
    """Txlog's frames from an append to the put of its commit, the outermost first."""
    stack: list[CodeType] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or frame.f_code.co_name != "put_if_absent" or stack:
            return
        up: FrameType | None = frame
        while up is not None:
            if _is_of_txlog(up.f_code):
                stack.insert(0, up.f_code)
            up = up.f_back

    _profiled(profile, lambda: table.append(ONE_ROW))
    return stack


def _profiled(profile: Callable[[FrameType, str, object], None], call: Callable[[], object]) -> None:
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def _is_of_txlog(code: CodeType) -> bool:
    return code.co_filename.startswith(_TXLOG)


def _is_function_of_txlog(code: CodeType) -> bool:
    return _is_of_txlog(code) and code.co_name not in _NO_FUNCTIONS


def _name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)  # since Python 3.11


if __name__ == "__main__":
    main()
