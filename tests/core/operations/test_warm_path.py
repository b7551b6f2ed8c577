"""How deep an append is when it puts its commit, and how many functions an operation passes: whoever reads the path
opens each of these functions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from passed_functions import OPERATIONS, ROWS, frames_at_put, functions_passed, warm_table

from txlog import Sink, Table

MAX = 10
FUNCTIONS_MAX = {"append": 385, "delete": 616, "upsert": 665, "vacuum": 375}


def test_the_put_of_a_warm_append_is_at_most_ten_calls_deep(tmp_path: Path) -> None:
    table = warm_table(str(tmp_path))
    stack = [code.co_name for code in frames_at_put(table)]
    assert (stack[1], stack[-1]) == ("append", "put_if_absent"), stack
    assert len(stack) <= MAX, f"a function that only passes on is one too many: {stack}"


def test_a_warm_append_passes_few_functions_and_does_not_check_its_own_files_as_those_of_others(tmp_path: Path) -> None:
    table = warm_table(str(tmp_path))
    functions_passed(OPERATIONS["append"], table)  # what is imported on first use is no part of the path
    passed = functions_passed(OPERATIONS["append"], table)
    table._open_table.post_commit.drain()
    assert "validate_committables" not in {code.co_name for code in passed}


def test_warm_operations_pass_few_functions(tmp_path: Path) -> None:
    for folder in ("first", "second"):  # what is imported on first use is no part of the path
        table = warm_table(str(tmp_path / folder))
        passed = {name: len(functions_passed(operation, table)) for name, operation in OPERATIONS.items()}
        table._open_table.post_commit.drain()
    assert {name: count for name, count in passed.items() if count > FUNCTIONS_MAX[name]} == {}


def test_upserts_in_a_row_neither_list_the_files_again_nor_encode_their_actions_field_by_field(tmp_path: Path) -> None:
    Table.create(str(tmp_path), ROWS.schema, properties={"delta.enableDeletionVectors": "true"}).append(ROWS)
    table = Table.open(str(tmp_path))
    for _ in range(3):
        OPERATIONS["upsert"](table)
    passed = functions_passed(OPERATIONS["upsert"], table)
    table._open_table.post_commit.drain()
    names = {code.co_name for code in passed}
    assert "_marked" in names, "a vector changed"
    assert names & {"reconcile", "files_from", "add_files_of", "adds_to_batch", "action_to_json"} == set()
    assert table.snapshot().count() == Table.open(str(tmp_path)).snapshot().count() == len(ROWS) + 1


def test_a_sink_whose_tasks_only_upsert_makes_no_writer_of_keys_and_reads_no_staged_rows(tmp_path: Path) -> None:
    Table.create(str(tmp_path), ROWS.schema, properties={"delta.enableDeletionVectors": "true"}).append(ROWS)
    sink = Sink(Table.open(str(tmp_path)), "app", mode="upsert", keys=["id"])

    def checkpoint(number: int) -> None:
        with sink.task(number) as task:
            task.write(pa.table({"id": [number, 5000 + number], "value": ["a", "b"]}))
        sink.prepare(number, [task.committable])
        sink.commit(number)

    for number in range(3):
        checkpoint(number)
    passed = functions_passed(lambda _: checkpoint(3), Table.open(str(tmp_path)))
    names = {code.co_name for code in passed}
    assert {"sorted_by_key", "_marked"} <= names
    assert names & {"key_plan", "open_rows_plan", "gather_rows"} == set()
    assert Table.open(str(tmp_path)).snapshot().count() == len(ROWS) + 4
