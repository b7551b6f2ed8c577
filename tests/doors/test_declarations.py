"""Every door has what the declarations say: each declared argument is accepted there, and refused by name elsewhere."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
import typer

import txlog
import txlog.spark
from integration import operations_page
from txlog import Table, Transaction
from txlog.cli.app import app
from txlog.core.declarations import DECLARED, Argument, Operation, declared
from txlog.errors import InvalidInputError
from txlog.spark import options as spark_options
from txlog.spark.rows.calls import ChangeOptions
from txlog.spark.wording import OPTIONS as SPARK_WORDS
from txlog.statements.script import read_statements

NOT_OPERATIONS = {"exists", "follow", "open", "resolve", "scan_tasks", "snapshot", "transaction", "transaction_version"}
"""Methods of `Table` that open it, read it as rows, or say something about it, in Python alone; ``to_...`` too."""
OF_TRANSACTIONS = {"add", "read", "remove", "remove_partitions", "set_transaction"}
COMMANDS: Any = typer.main.get_command(app)
COMMANDS_WITHOUT_OPERATION = {
    *(
        "abandon",
        "describe",
        "mirror",
        "probe-store",
        "serve",
        "serve-token",
        "show",
        "sinks",
        "sql",
        "staging",
        "tables",
    ),
}
OF_EVERY_COMMAND = {"location", "storage", "as_json", "uri", "storage_options"}
OF_FILES = {"files", "file_format", "null_values", "delimiter", "no_header", "merge_schema", "decimal_comma"}
BESIDE = {
    "append": {*OF_FILES, "create_table", "partition_by", "cluster_by"},
    "diff-rows": {"limit"},
    "changes": {"limit", "as_csv"},
    "constraint": {"drop"},
    "copy-into": {"merge_schema"},
    "create": {"like", "schema_in_json"},
    "files": {"limit", "version", "timestamp"},
    "head": {"version", "timestamp", "as_csv"},
    "count": {"version", "timestamp"},
    "maintain": {"watch"},
    "merge": {
        *OF_FILES,
        *("delete_if", "update_all", "update", "update_if", "insert_all", "insert", "insert_if"),
        *("delete_rest", "delete_rest_if"),
    },
    "overwrite": OF_FILES,
    "overwrite-partitions": OF_FILES,
    "report": {"output"},
    "upsert": {*OF_FILES, "merge_options"},
    "verify": {"acknowledged"},
}
"""What else a command takes: where its rows come from, what it is in two words, and how it shows the result."""
OF_SPARK_WRITES = {
    *("path", "catalog", "overwriteSchema", "dataChange", "clusterBy", "tableProperties", "partitionOverwriteMode"),
    *("readsTable", "changelogMode", "onMismatch", "maxRecordsPerFile", "compression", "isolationLevel", "hooks"),
    *("skipEmpty", "mustCreate", "timeZone"),
}
"""Options of ``df.write`` for what is no argument of an operation: the place, the new table, the session, Delta's."""

CALLS = [(each, argument) for each in DECLARED for argument in each.arguments]


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


@pytest.mark.parametrize("operation", DECLARED, ids=lambda each: each.name)
def test_a_method_of_the_table_takes_what_is_declared_in_this_order_and_documents_it(operation: Operation) -> None:
    method = getattr(Table, operation.name)
    assert parameters(method) == [each.name for each in operation.arguments]
    text = inspect.getdoc(method) or ""
    documented = {*re.findall(r"^    (\w+):", text.partition("Args:")[2].partition("Returns:")[0], re.MULTILINE)}
    others = " ".join(re.findall(r"The other\s+arguments[^.]*\.", text))
    missing = {each.name for each in operation.arguments} - documented
    assert not missing or {*re.findall(r"`(?:Table\.)?(\w+)`", others)}, f"neither here nor elsewhere: {missing}"


def test_each_method_of_the_table_is_declared() -> None:
    methods = {
        name for name in dir(Table) if not name.startswith(("_", "to_")) and inspect.isroutine(getattr(Table, name))
    }
    assert methods - NOT_OPERATIONS == {each.name for each in DECLARED}


@pytest.mark.parametrize("operation", DECLARED, ids=lambda each: each.name)
def test_a_method_of_the_transaction_takes_the_arguments_that_are_declared_for_it(operation: Operation) -> None:
    method = getattr(Transaction, operation.name, None)
    assert (method is not None) == operation.in_transaction
    if method is not None:
        assert parameters(method) == [each.name for each in operation.arguments if each.in_transaction]


def test_each_method_of_the_transaction_is_declared() -> None:
    methods = {name for name, each in inspect.getmembers(Transaction, inspect.isroutine) if not name.startswith("_")}
    assert methods - OF_TRANSACTIONS == {each.name for each in DECLARED if each.in_transaction}


@pytest.mark.parametrize("operation", [each for each in DECLARED if each.spark], ids=lambda each: each.name)
def test_a_function_of_spark_takes_the_arguments_that_are_declared_for_it(operation: Operation) -> None:
    function = getattr(txlog.spark, operation.spark)
    if "given" in parameters(function):  # it passes them all on to the method
        return
    taken = {*parameters(function), *get_type_hints(ChangeOptions, vars(txlog.spark.rows.calls) | {"Mapping": dict})}
    given = {each.name for each in operation.arguments if each.in_spark}
    assert given <= taken
    assert not taken & {each.name for each in operation.arguments if not each.in_spark}


def sql_of(operation: Operation, argument: Argument) -> str:
    begins = argument.sql.split()[0] == operation.sql.split()[0]
    return argument.sql if begins else f"{operation.sql} {argument.sql}"


@pytest.mark.parametrize(
    ("operation", "argument"),
    [(each, argument) for each, argument in CALLS if argument.sql],
    ids=[f"{each.name}-{argument.name}" for each, argument in CALLS if argument.sql],
)
def test_sql_reads_the_clause_of_an_argument(operation: Operation, argument: Argument) -> None:
    (plain,), text = read_statements(operation.sql), sql_of(operation, argument)
    (given,) = read_statements(text)
    assert type(given) is type(plain) or operation.name == "clone"
    assert given != plain or text == operation.sql


WRITTEN = [each for each in DECLARED if each.write]


def write_options() -> Iterator[tuple[Argument, str]]:
    for operation in WRITTEN:
        yield from ((each, each.write) for each in operation.arguments if each.write and "*" not in each.write)


def test_each_option_of_spark_writes_is_the_option_of_a_declared_argument() -> None:
    of_arguments = {name for _, name in write_options()}
    known = {name for name in spark_options.KNOWN if not name.startswith("commit.retry.")}
    assert of_arguments == known - OF_SPARK_WRITES
    assert not of_arguments & OF_SPARK_WRITES


def test_errors_in_spark_name_the_declared_option() -> None:
    named = {"mode": "row_mode"}  # `mode` is that of df.write there
    for argument, name in write_options():
        if argument.name in SPARK_WORDS or argument.name in named:
            assert SPARK_WORDS[named.get(argument.name, argument.name)] == name


def test_streams_take_the_options_of_writes_that_are_declared_for_them() -> None:
    for argument, name in write_options():
        assert (name in spark_options.KNOWN_OF_STREAMS) == argument.of_streams, name


@pytest.mark.parametrize("name", sorted({each.name for _, each in CALLS if not each.write}))
def test_spark_refuses_an_argument_that_it_does_not_take_by_name(name: str) -> None:
    option = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
    if option in {*spark_options.KNOWN, *spark_options.UNBUILT, "overwriteSchema"}:
        return
    with pytest.raises(InvalidInputError, match=rf"(?i)\b{option}\b"):
        spark_options.parse_write_options({"path": "/t", option: "1"})


def names_of(parameter: Any) -> set[str]:
    """An option's names, or what help calls a place."""
    if parameter.param_type_name == "argument":
        return {parameter.metavar or parameter.name.upper()}
    return {*parameter.opts, *parameter.secondary_opts}


@pytest.mark.parametrize("name", sorted({each.command for each in DECLARED if each.command}))
def test_a_command_takes_what_is_declared_and_nothing_else(name: str) -> None:
    taken = {each.name: names_of(each) for each in COMMANDS.get_command(None, name).params}
    arguments = [argument for each in DECLARED if each.command == name for argument in each.arguments]
    known = {
        option
        for each in arguments
        if each.option is not None
        for option in (each.option or each.option_name).split("/")
    }
    assert known <= set().union(*taken.values())
    others = {each for each, names in taken.items() if not names & known}
    assert others - OF_EVERY_COMMAND == BESIDE.get(name, set())


def test_each_command_is_the_command_of_a_declared_operation() -> None:
    commands = {*COMMANDS.list_commands(None)} - COMMANDS_WITHOUT_OPERATION
    assert commands == {each.command for each in DECLARED if each.command}


@pytest.mark.parametrize("operation", DECLARED, ids=lambda each: each.name)
def test_a_method_refuses_an_argument_that_is_not_declared_by_name(operation: Operation) -> None:
    values = dict.fromkeys((each.name for each in operation.arguments), None)
    with pytest.raises((TypeError, InvalidInputError), match="nothing_of_this_name"):
        getattr(Table, operation.name)(nothing_of_this_name=1, **values)


def test_the_page_of_operations_is_made_from_the_declarations() -> None:
    assert operations_page.PAGE.read_text() == operations_page.page(), "run python -m integration.operations_page"


def test_a_preview_is_there_at_each_door_that_can_ask_for_one() -> None:
    for operation in DECLARED:
        if operation.has_preview and operation.command:
            assert "dry_run" in {each.name for each in COMMANDS.get_command(None, operation.command).params}
    assert declared("vacuum").takes(next(each for each in declared("vacuum").arguments if each.name == "dry_run")) == (
        "Table",
        "command line",
        "SQL",
        "Spark function",
    )
