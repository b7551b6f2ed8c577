"""Taste that a machine can check, so that reviews need not argue about it."""

from __future__ import annotations

import ast
import graphlib
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.library import modules, tree

ROOT = Path(__file__).parent.parent
FUNCTION_LINES_MAX = 60
FACES = {
    *(
        "core/changes/plan/_merge_builder.py",
        "core/predicates/terms/predicate.py",
        "core/sink/_sink.py",
        "snapshot.py",
        "table.py",
    ),
    "table_transaction.py",
}
"""Modules that are documentation for users too: the docstrings of their functions are not counted."""
EXPORTED_NAMES_MAX = 40
TYPE_FILES_MAX = 6
"""Files that may name a type such as ``timestamp_ntz``: its line in the table, and what only it does."""
APPEND_MODULES_MAX = 83
"""Modules of txlog that a fresh process loads for one append: each costs it a third of a millisecond."""
APPEND_FUNCTIONS_MAX = 1_790
"""Functions in these modules. As it ends, Python's collector goes through them, and all other objects, four times."""

UPSERT_MODULES_MAX = 190
UPSERT_AND_DELETE_MODULES_MAX = 210
"""The same for a first upsert, and for a delete after it."""

ONLY_A_TYPE = {("txlog.core.sink._sink", "txlog.table"), ("txlog.result.report", "txlog.report.facts")}
"""Imports for the type of an argument or a field, against the order of rooms. pyproject.toml excepts them too."""

LIBRARY = list(modules().values())
EXPLORER = sorted(ROOT.glob("tests/simulation/explorer/*.py"))
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".json", ".yml", ".yaml", ".sh", ".ipynb", ".cfg", ""}

# Written in pieces, so that this file does not hold what it looks for.
LEFT_OPEN = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]))
MACHINE_PATH = re.compile(r"(?<![\w.:/}])/(?:work|root|farm|home|Users)/")


def test_the_library_is_found_by_these_tests() -> None:
    assert ROOT / "txlog" / "errors.py" in LIBRARY
    assert EXPLORER


def test_no_leftover_of_a_merge_or_a_patch_lies_in_the_library() -> None:
    assert {path.suffix for path in (ROOT / "txlog").rglob("*.*") if path.is_file()} <= {".py", ".pyc", ".typed"}


def test_a_module_says_what_it_is() -> None:
    """It opens with what lives here, what comes in and what goes out."""
    assert not [str(path.relative_to(ROOT)) for path in (*LIBRARY, *EXPLORER) if not ast.get_docstring(tree(path))]


def test_a_function_fits_on_one_screen() -> None:
    assert not [
        f"{path.relative_to(ROOT)}: {name}: {lines} lines"
        for path in (*LIBRARY, *EXPLORER)
        for name, lines in _functions(path)
        if lines > FUNCTION_LINES_MAX
    ]


def test_the_code_has_no_markers_of_unfinished_work() -> None:
    folders = ("txlog", "tests", "integration", "examples")
    ours = [path for folder in folders for path in ROOT.glob(f"{folder}/**/*.py")]
    assert not [hit for path in ours for hit in _hits(LEFT_OPEN, path)]


def test_no_file_names_a_path_of_one_machine() -> None:
    assert not [hit for path in _text_files() for hit in _hits(MACHINE_PATH, path)]


def test_the_library_starts_no_thread_pool_that_refuses_work_as_the_interpreter_ends() -> None:
    """`txlog.core.parallel` has one that does not."""
    library = [path for path in LIBRARY if "testing" not in path.parts]
    assert not [hit for path in library for hit in _hits(re.compile(r"\bimport\b.*\bThreadPoolExecutor\b"), path)]


def test_few_files_name_one_primitive_type() -> None:
    """What differs from type to type is in the table of `txlog.core.format.schema`: a new one touches few files."""
    named = re.compile("timestamp_ntz", re.IGNORECASE)
    assert len([path for path in LIBRARY if named.search(path.read_text())]) <= TYPE_FILES_MAX


def test_a_change_that_no_plan_makes_is_committed_in_one_way() -> None:
    """Plans build proposals with ids that they keep; all others call `OpenTable.commit_change`."""
    new_id = re.compile(r"\.build\([^=]*\btxn_id=ambient\.uuid4\(\)")
    assert [name for name, path in modules().items() if new_id.search(path.read_text())] == [
        "core/versions/_open_table.py"
    ]


def test_a_name_of_a_class_has_one_meaning() -> None:
    named = defaultdict(list)
    for name, path in modules().items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                named[node.name].append(name)
    assert {name: where for name, where in named.items() if len(where) > 1} == {}


def test_the_package_exports_few_names_and_each_can_be_imported() -> None:
    import txlog

    assert len(txlog.__all__) <= EXPORTED_NAMES_MAX
    assert all(getattr(txlog, name) is not None for name in txlog.__all__)


# On a machine that takes a second from opening a table to a commit, the handle would write a checksum too.
_NO_CHECKSUM = "import txlog.core.versions.upkeep._post_commit as upkeep; upkeep.CHECKSUM_SPACING_S = 1e9"


def test_importing_txlog_loads_neither_spark_nor_arrow(record_property: Callable[[str, object], None]) -> None:
    """The bound is 150 ms; the test asserts what decides it, and shows the time."""
    heavy = {"pyspark", "pyarrow", "numpy", "pandas", "obstore", "sqlglot", "typer", "rich", "tenacity"}
    loaded = _run("import sys, txlog; print(' '.join(sys.modules))").split()
    assert not heavy & set(loaded)

    median_ms = statistics.median(_import_ms() for _ in range(5))
    record_property("measured", f"import txlog: {median_ms:.1f} ms, median of 5 fresh interpreters (the bound is 150)")


def test_opening_a_table_and_appending_loads_nothing_that_only_other_calls_need(tmp_path: Path) -> None:
    """Short processes append one batch each, and would spend more time on imports than on it."""
    import pyarrow as pa

    import txlog

    table = txlog.Table.create(tmp_path, pa.schema([("id", pa.int64())]), properties={"delta.checkpointInterval": "2"})
    for _ in range(2):  # the second one is followed by a checkpoint, whose size decides when the next one is due
        table.append(pa.table({"id": [1]}))
    table._open_table.post_commit.drain()
    rows = "pyarrow.table({'id': pyarrow.nulls(1, 'int64')})"  # made without pandas, which pyarrow.array imports
    load = "import sys, pyarrow; arrow = set(sys.modules); import txlog; txlog.Table; before = set(sys.modules)"
    append = (
        f"{_NO_CHECKSUM}; table = txlog.Table.open({str(tmp_path)!r}); opened = set(sys.modules); table.append({rows})"
    )
    function = "type(txlog.__getattr__)"
    owners = f"[each.__module__ or '' for each in __import__('gc').get_objects() if type(each) is {function}]"
    names = "print(*sys.modules); print(*set(sys.modules) - arrow); print(*opened - before)"
    output = _run(f"{load}; {append}; {names}; print(*{owners})")
    loaded, by_txlog, to_open, functions = (line.split(" ") for line in output.splitlines())
    assert table.version == 3
    assert list(tmp_path.glob("_delta_log/*2.checkpoint.parquet"))
    only_others_need = (
        *(
            "asyncio",
            "obstore",
            "pandas",
            "pyarrow.compute",
            "pyarrow.fs",
            "pyarrow.json",
            "pyarrow.parquet",
            "pyiceberg",
            "pyroaring",
        ),
        *("pyspark", "sqlglot", "tenacity", "typer"),
        *(f"txlog.{room}" for room in ("audit", "cli", "glue", "iceberg", "loading", "report", "spark", "statements")),
        *(f"txlog.core.{room}" for room in ("catalogs", "maintenance", "predicates", "sink", "workers")),
        *("txlog.catalog", "txlog.changelog", "txlog.testing", "txlog.table_transaction", "txlog.unity"),
        *(f"txlog.core.{room}" for room in ("changes", "definition", "operations.replaced_files", "store.options")),
        *(
            f"txlog.core.versions.{module}"
            for module in ("decisions.files", "files.checkpoint_reader", "files.file_loader", "upkeep.log_clean_up")
        ),
        *("txlog.core.row_rules", "txlog.core.writing._row_changes", "txlog.core.writing._row_guard"),
        *("txlog.core.format.arrow.arrays", "txlog.core.format.partition_values"),
        "txlog.result.maintenance",
    )
    assert not [name for name in loaded if any(f"{name}.".startswith(f"{other}.") for other in only_others_need)]
    assert not {"asyncio", "inspect", "ipaddress", "random", "urllib.parse", "uuid"} & set(by_txlog)
    assert sum(name.partition(".")[0] == "txlog" for name in loaded) <= APPEND_MODULES_MAX
    assert sum(name.startswith("txlog") for name in functions) <= APPEND_FUNCTIONS_MAX
    assert not [name for name in to_open if name.startswith("txlog")], "each import in the main thread starts a thread"


def test_a_first_row_change_loads_only_what_it_uses(tmp_path: Path) -> None:
    """One process upserts, and then deletes: each module costs it a third of a millisecond."""
    import pyarrow as pa

    import txlog

    txlog.Table.create(tmp_path, pa.schema([("id", pa.int64())])).append(pa.table({"id": range(9)}))
    rows = "pyarrow.table({'id': pyarrow.nulls(1, 'int64').fill_null(3)})"
    start = f"import sys, pyarrow, txlog; {_NO_CHECKSUM}; table = txlog.Table.open({str(tmp_path)!r})"
    upsert = f"table.upsert({rows}, ['id']); print(*sys.modules)"
    upserted, deleted = _run(f"{start}; {upsert}; table.delete('id = 4'); print(*sys.modules)").splitlines()
    of_predicates = ("calendar", "collection", "format", "hash", "json", "lambda")
    only_others_need = (
        *(f"txlog.core.predicates._{kind}_kernels" for kind in of_predicates),
        *(f"txlog.core.predicates._{kind}" for kind in ("casts", "functions", "kernels", "time_functions")),
        *("txlog.core.changes.plan._change_files", "txlog.core.versions.decisions.changes"),
        *("txlog.core.definition._table_definition", "txlog.core.format.wide_statistics", "txlog.core.format.z85"),
        "txlog.core.changes.tasks._tombstone_files",
    )
    assert not {*only_others_need} & {*deleted.split(" ")}
    assert not [name for name in upserted.split(" ") if name.startswith(("sqlglot", "txlog.core.predicates._sql"))]
    for loaded, most in ((upserted, UPSERT_MODULES_MAX), (deleted, UPSERT_AND_DELETE_MODULES_MAX)):
        assert sum(name.partition(".")[0] == "txlog" for name in loaded.split(" ")) <= most


def test_the_command_line_starts_without_the_parser_of_sql_and_without_pandas() -> None:
    loaded = _run("import sys, txlog.cli.app; print(' '.join(sys.modules))").split()
    assert not {"pandas", "sqlglot", "duckdb", "obstore"} & set(loaded)


def test_a_limit_that_tests_lower_is_not_named_as_one_that_stays_in_its_file() -> None:
    by_name = r'(setattr|object)\(\s*[\w.]+,\s*"_[A-Z]|"txlog\.[\w.]+\._[A-Z][A-Z0-9_]*"'
    lowered = re.compile(rf"{by_name}|\w\._[A-Z_]{{3,}} = ")
    texts = {path: path.read_text() for part in ("tests", "integration") for path in (ROOT / part).rglob("*.py")}
    assert [f"{path}: {found[0]}" for path, text in texts.items() for found in lowered.finditer(text)] == []


def test_functions_import_modules_of_the_library_which_import_the_other_packages() -> None:
    """So that a signal handler cannot break off the import of another package (`txlog.core.whole_import`).

    The standard library's modules heal: they are imported again, apart from some packages. An interrupted command ends.
    """
    whole_before = {
        *("polars", "pyiceberg", "sqlalchemy"),  # by import_whole
        "narwhals",  # its caller has an expression
        "pyspark",  # its caller has a session
    }
    heals = sys.stdlib_module_names - {"asyncio", "multiprocessing"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for path in LIBRARY
        if ROOT / "txlog" / "cli" not in path.parents
        for node, name in _imports(path, at_the_top=False)
        if name.partition(".")[0] not in {"txlog"} | whole_before | heals
    ]
    assert not found


def test_no_modules_import_each_other_in_a_circle_at_their_top() -> None:
    """The main thread would wait for the thread that imports for it, which waits for the main thread.

    A module also imports the package that it is in.
    """
    names = _modules()
    graph = {
        name: {
            *({package} if (package := name.rpartition(".")[0]) != "txlog" else ()),
            *(other for _, other in _imports(path, at_the_top=True) if other in names and other != "txlog"),
        }
        for name, path in names.items()
        if name != "txlog"
    }
    assert sum(map(len, graph.values())) > len(graph)
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names them


def test_no_modules_depend_on_each_other_in_a_circle() -> None:
    """Imports in functions and for type checkers count too: of two modules, one can be read without the other."""
    names = _modules()
    graph = {
        name: {
            other
            for at_the_top in (True, False)
            for _, other in _imports(path, at_the_top=at_the_top, for_types=True)
            if other in names and other not in ("txlog", name) and other not in _packages_of(name)
            if (name, other) not in ONLY_A_TYPE
        }
        for name, path in names.items()
        if name != "txlog"  # its package loads its faces when they are asked for
    }
    assert sum(map(len, graph.values())) > 4 * len(graph)
    graphlib.TopologicalSorter(graph).prepare()


def _modules() -> dict[str, Path]:
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in LIBRARY}


def _packages_of(name: str) -> set[str]:
    """The packages that a module is in: `from package import module` names both."""
    parts = name.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts))}


def _imports(path: Path, *, at_the_top: bool, for_types: bool = False) -> Iterator[tuple[ast.stmt, str]]:
    """The modules that a module imports at its top, or else in functions, as each import statement names them."""
    waiting: list[tuple[ast.AST, bool]] = [(tree(path), True)]
    while waiting:
        parent, is_top = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            if not for_types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            if isinstance(node, ast.Import) and is_top == at_the_top:
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and is_top == at_the_top:
                yield node, str(node.module)
                yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)
            waiting.append((node, is_top and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))))


def test_an_append_compiles_only_the_regular_expressions_that_it_uses(tmp_path: Path) -> None:
    import pyarrow as pa

    import txlog

    txlog.Table.create(tmp_path, pa.schema([("id", pa.int64())]))
    counts = """
import re, sys, txlog, pyarrow
compiled, compiler = set(), re.compile
def counted(text, flags=0):
    if sys._getframe(1).f_globals["__name__"].startswith("txlog."):
        compiled.add(text)
    return compiler(text, flags)
re.compile = counted
"""
    append = f"txlog.Table.open({str(tmp_path)!r}).append(pyarrow.table({{'id': pyarrow.array([1])}}))"
    assert 0 < int(_run(f"{counts}{append}; print(len(compiled))")) <= 12


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a module and their lines; those of faces without the docstring, which users read."""
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
            yield node.name, node.end_lineno - node.lineno + 1 - _documentation(path, node)


def _documentation(path: Path, node: ast.AST) -> int:
    """The lines of a function's docstring, in a module that is a face."""
    if path.relative_to(ROOT).as_posix().removeprefix("txlog/") not in FACES:
        return 0
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not ast.get_docstring(node):
        return 0
    return (node.body[0].end_lineno or 0) - node.body[0].lineno + 1


def _text_files() -> Iterator[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix in TEXT_SUFFIXES and path.is_file():
            yield path


def _hits(pattern: re.Pattern[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        if pattern.search(line):
            yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _import_ms() -> float:
    clock = "import time; begin = time.perf_counter(); import txlog; print((time.perf_counter() - begin) * 1000)"
    return float(_run(clock))
