"""A signal handler that raises in the middle of a first import breaks nothing: later calls of the process work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import txlog

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals to itself, and forks")

_ROWS = """
import pyarrow as pa
seven = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer((7).to_bytes(8, "little"))])  # without pandas
rows = pa.table({"id": seven, "name": pa.nulls(1, "string")})
"""

_CALLS = """
import itertools, os, signal, sys, threading, time, traceback

numbers = itertools.count()

def calls(path):
    import txlog

    def table():
        return txlog.Table.open(path)

    def within_a_transaction():
        with table().transaction() as transaction:
            transaction.delete("id = 7")
            transaction.append(rows)

    def an_object_store():
        from txlog.core.store._open import open_store

        return open_store("s3://bucket/table", {"aws_region": "a", "access_key_id": "b", "secret_access_key": "c"})

    def a_spark_function():
        import txlog.spark

        return txlog.spark.delete, txlog.spark.read

    return {
        "open": lambda: table().version,
        "append": lambda: table().append(rows),
        "read": lambda: table().to_arrow(where="id > 1 and name like 'a%'"),
        "plain read": lambda: table().to_arrow(),
        "count": lambda: table().snapshot().count("name is null"),
        "changes": lambda: table().changes(0).read_all(),
        "diff": lambda: table().diff(0, 2),
        "overwrite": lambda: table().overwrite(rows, where="id = 7"),
        "dataset": lambda: table().snapshot().to_dataset().count_rows(),
        "pandas": lambda: table().to_pandas(),
        "polars": lambda: table().snapshot().to_polars(),
        "lazy polars": lambda: table().snapshot().to_lazy().collect(),
        "create": lambda: txlog.Table.create(f"{path}-{next(numbers)}", "id bigint"),
        "delete": lambda: table().delete("id = 7"),
        "update": lambda: table().update({"name": txlog.lit("x")}, "id = 2"),
        "upsert": lambda: table().upsert(rows, ["id"]),
        "merge": lambda: table().merge(rows, ["id"]).when_matched_update_all().execute(),
        "transaction": within_a_transaction,
        "sink": lambda: txlog.Sink(table(), app_id="a").recover(),
        "history": lambda: table().history(),
        "optimize": lambda: table().optimize(),
        "vacuum": lambda: table().vacuum(),
        "restore": lambda: table().restore(1),
        "verify": lambda: table().verify(),
        "checkpoint": lambda: table().create_checkpoint(),
        "export": lambda: table().export_iceberg(),
        "retry": lambda: txlog.RetryPolicy(min_wait=0, max_wait=0).pacing(lambda: 0.0).pause(),
        "store": an_object_store,
        "spark": a_spark_function,
    }

signal.signal(signal.SIGINT, signal.default_int_handler)
"""

_AT_EVERY_IMPORT = """
seen, interrupts = set(), 0

def interrupt(event, arguments):
    if event == "import" and arguments[0] not in seen:
        seen.add(arguments[0])
        os.kill(os.getpid(), signal.SIGINT)

def until_nothing_interrupts(call):
    global interrupts
    while True:
        try:
            return call()
        except KeyboardInterrupt:
            interrupts += 1

sys.addaudithook(interrupt)
found = until_nothing_interrupts(lambda: calls(PATH))
for name in ORDERED(NAMES or found):
    until_nothing_interrupts(found[name])
signal.signal(signal.SIGINT, signal.SIG_IGN)
for name in NAMES or found:
    found[name]()
print(len(seen), interrupts)
"""

_AT_ONE_IMPORT = """
def child(call, number):
    counted = itertools.count(1)

    def interrupt(event, arguments):
        if event == "import" and next(counted) == number:
            os.kill(os.getpid(), signal.SIGINT)

    sys.addaudithook(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        pass
    imports = next(counted)
    call()
    calls(PATH)["pandas"]()
    return imports
"""

# The import of the main thread is interrupted just after another thread began to wait for it.
_IN_TWO_THREADS = """
def child(call, number):
    begun, failures, counted = threading.Event(), [], itertools.count(1)

    def interrupt(event, arguments):
        if event == "import" and arguments[0].startswith("txlog") and next(counted) == number:
            begun.set()
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

    def other():
        try:
            begun.wait(30)
            call()
        except BaseException:
            failures.append(traceback.format_exc())

    thread = threading.Thread(target=other)
    thread.start()
    sys.addaudithook(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        pass
    imports = next(counted)
    begun.set()
    thread.join(30)
    if failures or thread.is_alive():
        sys.exit(f"interrupted at import {number}: {failures or 'the other thread waits'}")
    call()
    return imports
"""

# The main thread, where a signal handler may raise, must not be the one that imports pandas, which pyarrow asks for.
_WITHOUT_PANDAS = """
def child(call, number):
    def look(event, arguments):
        if event == "import" and arguments[0] == "pandas" and threading.current_thread() is threading.main_thread():
            raise AssertionError("the main thread imports pandas")

    sys.addaudithook(look)
    call()
    return number
"""

_IN_FORKS = """
def in_a_fork(call, number):
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.write(writer, str(child(call, number)).encode())
        except BaseException:
            os.write(writer, traceback.format_exc()[-3000:].encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        answer = answers.read()
    os.waitpid(process, 0)
    if not answer.isdigit():
        sys.exit(answer)
    return int(answer)

found = calls(PATH)
if TRIES:
    imports = in_a_fork(found[NAME], 0)
    tried = sorted({1 + imports * part // TRIES for part in range(TRIES)})
    print(imports, [in_a_fork(found[NAME], number) for number in tried])
else:
    for number, name in enumerate(NAMES or found):
        in_a_fork(found[name], number)
"""


@pytest.mark.parametrize("order", ["list", pytest.param("reversed", marks=pytest.mark.hunt(part="ends"))])
def test_every_call_works_after_interrupts_at_every_import_that_it_makes(order: str, table: str) -> None:
    seen, interrupts = _run(_ROWS, _CALLS, f"PATH, NAMES, ORDERED = {table!r}, [], {order}", _AT_EVERY_IMPORT).split()
    assert int(seen) > 500
    assert int(interrupts) > 30


def test_an_interrupt_that_leaves_the_import_lock_taken_stops_no_import(tmp_path: Path) -> None:
    """As one does that comes while importlib forgets a module's lock, which the collector may do at any time."""
    (tmp_path / "whole.py").write_text(
        "import os, signal, sys, time\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "while not sys.modules['__main__'].handled: time.sleep(0.001)\n"
        "import part\n"
    )
    (tmp_path / "part.py").write_text("")
    handler = """
import _imp, faulthandler, signal, sys
from txlog.core.whole_import import import_whole
faulthandler.dump_traceback_later(20, exit=True)
handled = False
def handler(number, frame):
    global handled
    _imp.acquire_lock()
    handled = True
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
try:
    import_whole("whole")
except KeyboardInterrupt:
    print("part" in sys.modules, _imp.lock_held())
"""
    assert _run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})", handler) == "True False\n"


def test_a_signal_handler_breaks_no_import_after_an_interrupt_that_left_the_import_lock_taken(tmp_path: Path) -> None:
    (tmp_path / "whole.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.1)\ncomplete = True\n"
    )
    taken = """
import _imp, signal, sys
from txlog.core.whole_import import import_whole
signal.signal(signal.SIGINT, signal.default_int_handler)
_imp.acquire_lock()
try:
    import_whole("whole")
except KeyboardInterrupt:
    print(sys.modules["whole"].complete, _imp.lock_held())
"""
    assert _run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})", taken) == "True False\n"


def test_a_finder_may_import_while_importlib_holds_its_lock() -> None:
    finder = """
import sys
from txlog.core.whole_import import import_whole
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "absent":
            import_whole("colorsys")
sys.meta_path.insert(0, Finder())
try:
    import absent
except ImportError:
    print("colorsys" in sys.modules)
"""
    assert _run("import faulthandler; faulthandler.dump_traceback_later(20, exit=True)", finder) == "True\n"


def test_a_process_works_after_interrupts_at_every_import_of_its_first_call(table: str) -> None:
    """Of the packages too that txlog needs from the start, which cannot be imported twice."""
    seen, interrupts = _run(
        _CALLS, f"PATH, NAMES, ORDERED = {table!r}, ['open', 'history'], list", _AT_EVERY_IMPORT
    ).split()
    assert int(seen) > 200
    assert int(interrupts) > 0


@pytest.mark.hunt(part="ends")
def test_a_condition_works_after_an_interrupt_at_one_of_its_imports(table: str) -> None:
    """Also of pandas, which pyarrow imports for the condition."""
    _run(_ROWS, _CALLS, f"PATH, NAME, TRIES = {table!r}, 'read', 6", _AT_ONE_IMPORT, _IN_FORKS)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["plain read", "read", "count", "changes", "overwrite"], id="calls that read"),
        pytest.param([], id="all calls", marks=pytest.mark.hunt(part="ends")),
    ],
)
@pytest.mark.parametrize("partition_by", [[], ["name"]], ids=["whole", "in partitions"])
def test_no_call_imports_pandas_where_an_interrupt_could_break_it(
    names: list[str], partition_by: list[str], tmp_path: Path
) -> None:
    path = _table(tmp_path, partition_by)
    txlog.Table.open(path).delete("id = 0")
    _run(_ROWS, _CALLS, f"PATH, NAMES, TRIES = {path!r}, {names}, 0", _WITHOUT_PANDAS, _IN_FORKS)


@pytest.mark.parametrize("name", ["store", pytest.param("transaction", marks=pytest.mark.hunt(part="ends"))])
def test_an_interrupted_import_leaves_a_whole_module_to_the_thread_that_waits_for_it(name: str, table: str) -> None:
    _run(_ROWS, _CALLS, f"PATH, NAME, TRIES = {table!r}, {name!r}, 5", _IN_TWO_THREADS, _IN_FORKS)


def test_imports_work_where_no_thread_can_be_started(table: str) -> None:
    cannot_start = "import threading; threading.stack_size(1 << 46)"
    with_threads = "import txlog; print(txlog.Table.open(PATH).to_arrow(where='id = 1').num_rows)"
    assert _run(cannot_start, f"PATH = {table!r}", with_threads) == "1\n"


def test_imports_work_while_the_interpreter_ends(table: str) -> None:
    read = f"print(txlog.Table.open({table!r}).version)"
    assert _run("import atexit, txlog", f"atexit.register(lambda: {read})") == "3\n"


def test_a_module_may_ask_the_interpreter_for_itself_while_it_is_imported(tmp_path: Path) -> None:
    """As C code of packages does with PyImport_GetModule, which waits for the module's lock."""
    (tmp_path / "asking.py").write_text(
        "import ctypes\n"
        "get_module = ctypes.pythonapi.PyImport_GetModule\n"
        "get_module.restype, get_module.argtypes = ctypes.py_object, [ctypes.py_object]\n"
        "found = get_module(__name__)\n"
    )
    asks = "import txlog.asking; print(txlog.asking.found is txlog.asking)"
    ends = "import faulthandler; faulthandler.dump_traceback_later(60, exit=True)"
    assert _run(ends, "import txlog", f"txlog.__path__.append({str(tmp_path)!r})", asks) == "True\n"


def test_a_package_may_import_the_module_of_it_that_the_main_thread_wants(tmp_path: Path) -> None:
    """The import of a module executes its package first."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from txlog.package.part import found\n")
    (tmp_path / "package" / "part.py").write_text("found = 7\n")
    ends = "import faulthandler; faulthandler.dump_traceback_later(60, exit=True)"
    wants = "import txlog.package.part as part; print(part.found, txlog.package.part is part)"
    assert _run(ends, "import txlog", f"txlog.__path__.append({str(tmp_path)!r})", wants) == "7 True\n"


def test_what_a_module_raises_leaves_its_import(table: str) -> None:
    absent = "import sys; sys.modules['sqlglot'] = None"
    read = f"txlog.Table.open({table!r}).to_arrow(where='id = 1')"
    caught = f"import txlog\ntry:\n    {read}\nexcept ModuleNotFoundError as error:\n    print(error.name)"
    assert _run(absent, caught) == "sqlglot\n"


@pytest.fixture
def table(tmp_path: Path) -> str:
    return _table(tmp_path)


def _table(folder: Path, partition_by: Sequence[str] = ()) -> str:
    path = str(folder / "table")
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    table = txlog.Table.create(path, schema, partition_by, properties)
    for number in range(3):
        table.append(pa.table({"id": [number], "name": ["a"]}))
    return path


def _run(*parts: str) -> str:
    ended = subprocess.run([sys.executable, "-c", "\n".join(parts)], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
