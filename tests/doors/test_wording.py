"""Errors name arguments by value, and each door writes its own name of them."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

import txlog
from tests.library import modules, tree
from txlog.cli.app import app
from txlog.cli.wording import OPTIONS as COMMAND_OPTIONS
from txlog.cli.wording import in_commands
from txlog.core.util import invalid
from txlog.core.wording import Door, advice, argument, batch, call, in_python, setting, spelled, words_in
from txlog.errors import InvalidInputError, TxlogError
from txlog.spark.options import KNOWN
from txlog.spark.wording import OPTIONS as SPARK_OPTIONS
from txlog.spark.wording import in_spark
from txlog.statements.wording import in_sql

MARKS = re.compile("[\ufdd0\ufdd1]")
IN_PYTHON_ONLY = {
    "dtype_backend",
    "types_mapper",  # what neither Spark's writes nor the command line can be given
    *(
        "attempt",
        "column",
        "column_rules",
        "condition",
        "credential_provider",
        "data",
        "description",
        "engine",
        "dtype_backend",
        "types_mapper",
        "except_cols",
        "file",
        "from_file",
    ),
    *("key_cache_size", "max_attempts", "stored_as_scd_type"),
    *(
        "modification_time",
        "n",
        "name",
        "num_tasks",
        "on_change",
        "on_progress",
        "parameters",
        "path",
        "paths",
        "retry",
        "prefix",
        "size",
    ),
    *(
        "source_alias",
        "target_alias",
        "text",
        "txn_id",
        "table",
        "tables",
        "task_id",
        "tasks",
        "update_columns",
        "values",
        "mode",
        "key",
        "version",
        "schema_mode",
    ),
    *("columns", "timestamp", "limit", "max_bytes", "small_files_min", "properties", "inventory", "target_bytes"),
}


# --- words in texts -------------------------------------------------------------------------------------------------

TEXTS: list[tuple[str, dict[str, str]]] = [
    (argument("read_version"), {"python": "read_version", "spark": "readVersion", "commands": "--read-version"}),
    (argument("row_mode"), {"python": "row_mode", "spark": "rowMode", "commands": "--row-mode"}),
    (
        setting("row_mode", "merge-on-read"),
        {
            "python": 'row_mode="merge-on-read"',
            "spark": "rowMode=merge-on-read",
            "commands": "--row-mode merge-on-read",
        },
    ),
    (
        setting("schema_mode", "merge"),
        {"python": 'schema_mode="merge"', "spark": "mergeSchema=true", "commands": "--merge-schema"},
    ),
    (
        setting("schema_mode", "overwrite"),
        {
            "python": 'schema_mode="overwrite"',
            "spark": "overwriteSchema=true",
            "commands": 'schema_mode="overwrite" (in Python)',
        },
    ),
    (setting("force", True), {"python": "force=True", "commands": "--force"}),
    (setting("retention_hours", 1.5), {"python": "retention_hours=1.5", "commands": "--retention-hours 1.5"}),
    (
        setting("on_mismatch", {"missing": "ignore"}),
        {"python": 'on_mismatch={"missing": "ignore"}', "spark": "onMismatch=missing=ignore"},
    ),
    (
        call("set_properties", {"delta.a": "1", "b": "it's"}),
        {
            "python": 'table.set_properties({"delta.a": "1", "b": "it\'s"})',
            "spark": 'txlog.Table.open(path).set_properties({"delta.a": "1", "b": "it\'s"})',
            "commands": "txlog set URI delta.a=1 b=it's",
            "sql": "ALTER TABLE ... SET TBLPROPERTIES ('delta.a' = '1', 'b' = 'it\\'s')",
        },
    ),
    (
        call("unset_properties", ["delta.appendOnly"]),
        {
            "python": 'table.unset_properties(["delta.appendOnly"])',
            "commands": "txlog set URI --unset delta.appendOnly",
            "sql": "ALTER TABLE ... UNSET TBLPROPERTIES ('delta.appendOnly')",
        },
    ),
    (
        batch("it's", 7),
        {"python": 'checkpoint 7 of "it\'s"', "spark": 'txnVersion 7 of txnAppId "it\'s"'},
    ),
    (
        advice("create the table", "create the table"),
        {
            "python": "create the table",
            "commands": "create the table with txlog create or txlog append --create; for a table of a catalog, give"
            " the location that txlog describe NAME --catalog URI prints",
        },
    ),
    (advice("unknown", f"give {argument('app_id')}"), {"spark": "give txnAppId", "commands": "give --app-id"}),
    (argument("cluster_by"), {"python": "cluster_by", "sql": "CLUSTER BY"}),
    (setting("retention_hours", 2), {"commands": "--retention-hours 2", "sql": "RETAIN 2 HOURS"}),
]
DOORS: dict[str, Door] = {"python": in_python, "spark": in_spark, "commands": in_commands, "sql": in_sql}


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_each_door_writes_a_word_in_its_own_way(text: str, expected: dict[str, str]) -> None:
    for door, written in expected.items():
        assert spelled(f"see {text}, please", DOORS[door]) == f"see {written}, please"


def test_an_error_shows_pythons_words_and_keeps_the_argument_as_a_value() -> None:
    error = InvalidInputError(f"{argument('read_version')} is 7: leave {argument('read_version')} out", table="/t")
    assert str(error) == "/t: read_version is 7: leave read_version out"
    assert error.args == ("read_version is 7: leave read_version out",)
    assert error.parameter == "read_version"
    assert InvalidInputError("no word").parameter is None
    error.template += f"; or set {setting('on_conflict', 'fail')}"
    error.template = spelled(error.template, in_spark)
    assert error.message == "readVersion is 7: leave readVersion out; or set onConflict=fail"
    assert error.parameter == "read_version"


def test_the_words_of_an_error_survive_a_journey_to_another_process() -> None:
    error: TxlogError = pickle.loads(pickle.dumps(invalid("on_conflict", "x", "'fail'")))
    assert (error.message, error.parameter) == ("Invalid on_conflict 'x': expected 'fail'", "on_conflict")
    error.template = spelled(error.template, in_commands)
    assert error.message == "Invalid --on-conflict 'x': expected 'fail'"


@pytest.mark.parametrize(
    "text", ["\ufdd0", "\ufdd1", "\ufdd0[]\ufdd1", "\ufdd0{}\ufdd1", '\ufdd0["argument"]', "\ufdd01\ufdd1"]
)
def test_a_users_text_that_looks_like_a_word_does_no_harm(text: str) -> None:
    for door in DOORS.values():
        assert MARKS.sub("", spelled(f"a{text}b", door)) == MARKS.sub("", f"a{text}b")
    assert list(words_in(text)) == []


# --- every word of the source ---------------------------------------------------------------------------------------


def named_in_source() -> Iterator[tuple[str, str]]:
    """Each (function, name) of a word in the rooms that serve several doors."""
    makers = {"argument", "setting", "invalid", "whole_number", "names_in", "check_choice", "check_text"}
    for name, path in modules().items():
        if name.startswith(("testing/", "spark/", "cli/", "core/sink/")):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in makers and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.isidentifier():
                    yield node.func.id, first.value  # type: ignore[attr-defined]


def test_every_argument_in_errors_is_known_to_spark_or_the_command_line_or_python() -> None:
    names = {name for _, name in named_in_source()}
    assert len(names) > 50
    assert names - SPARK_OPTIONS.keys() - COMMAND_OPTIONS.keys() - IN_PYTHON_ONLY == set()
    for name in names:
        for text in (argument(name), setting(name, "merge")):
            for door in DOORS.values():
                if door is in_sql and name in ("dialect", "engine"):
                    continue  # not of the text: of the call or the command that has it, which spells them
                assert spelled(text, door), name
                assert not MARKS.search(spelled(text, door)), name


def test_the_names_of_spark_are_options_of_its_writes() -> None:
    assert set(SPARK_OPTIONS.values()) <= set(KNOWN)


def test_the_names_of_the_command_line_are_options_of_its_commands() -> None:
    program = typer.main.get_command(app)
    context = typer.Context(program)
    commands = [program, *(program.get_command(context, name) for name in program.list_commands(context))]  # type: ignore[attr-defined]
    known = {option for command in commands for parameter in command.params for option in parameter.opts}
    assert set(COMMAND_OPTIONS.values()) | {"--merge-schema", "--unset", "--create"} <= known


# --- no name is plain text ------------------------------------------------------------------------------------------


def keywords() -> set[str]:
    """The arguments of the public calls whose names no English sentence has."""
    calls: list[Callable[..., Any]] = [txlog.write, txlog.resolve]
    calls += [each for _, each in inspect.getmembers(txlog.Table, inspect.isfunction)]
    return {name for each in calls for name in inspect.signature(each).parameters if "_" in name}


def texts_of_errors(module: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error"):
            for argument_of_error in node.args:
                skipped = {
                    id(inner)
                    for call in ast.walk(argument_of_error)
                    if isinstance(call, ast.Call)
                    for inner in ast.walk(call)
                }
                for each in ast.walk(argument_of_error):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in skipped:
                        yield each


PYTHONS_OWN = {"testing", "spark", "cli", "sink", "store", "table.py", "table_transaction.py"}


def test_no_error_of_several_doors_names_an_argument_in_plain_text() -> None:
    """Or else Spark and the command line would show Python's name. Sinks are Python's own."""
    named = re.compile(rf"\b({'|'.join(sorted(keywords() - {'checkpoint_id', 'txn_id'}))})\b(?!\()")
    found = []
    for name, path in modules().items():
        if name.removeprefix("core/").partition("/")[0] in PYTHONS_OWN:
            continue
        for text in texts_of_errors(tree(path)):
            if named.search(text.value):
                found.append(f"{name}:{text.lineno}: {text.value}")
    assert found == [], "\n".join(found)
