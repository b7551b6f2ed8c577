"""Each verb of branches at each door: Python, a branch by its name, the command line and SQL. All do the same, or name
the way out."""

from __future__ import annotations

import json
import shutil
from ast import literal_eval
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog import Table
from txlog.cli.app import app
from txlog.errors import TxlogError

Door: TypeAlias = Callable[[str], Any]
ROWS = pa.table({"id": pa.array([3], pa.int64())})
BASE, MORE = [1, 2], [1, 2, 3]


def in_shell(*words: str) -> Door:
    """A command, of which ``T`` is the table, and ROWS a file; what it says, as JSON."""

    def run(uri: str) -> Any:
        named = [
            str(Path(uri).parent / "rows.jsonl") if word == "ROWS" else word.replace("T", uri, 1) for word in words
        ]
        done = CliRunner().invoke(app, [*named, "--json"])
        if done.exit_code:
            raise TxlogError(done.output)
        return json.loads(done.output)

    return run


def in_sql(text: str) -> Door:
    """A statement, of which ``{T}`` is the table, and ``{B}`` its branch."""

    def run(uri: str) -> Any:
        return txlog.sql(text.format(T=f"delta.`{uri}`", B=f"delta.`{uri}@b`")).read_all()

    return run


def failures_in_shell(uri: str) -> list[Any]:
    """The rows that fail a check: the command tells them and ends with code 1."""
    with pytest.raises(TxlogError) as failed:
        in_shell("check", "T@b", "--check", "id < 3")(uri)
    return [each["rows"] for each in json.loads(str(failed.value))["failures"]]


def of_handle(work: Callable[[Table], Any]) -> Door:
    return lambda uri: work(Table.open(f"{uri}/_branches/b"))


def of_name(work: Callable[[Table], Any]) -> Door:
    return lambda uri: work(Table.open(f"{uri}@b"))


def everywhere(work: Callable[[Table], Any], shell: Door, sql: Door) -> dict[str, Door]:
    """The doors of what is done with a branch."""
    return {"python": of_handle(work), "name": of_name(work), "shell": shell, "sql": sql}


def audit(uri: str) -> None:
    with Table.open(uri).audit(["id > 0"], name="b") as staged:
        staged.append(ROWS)


class Verb(NamedTuple):
    """What each door does, from where it begins; the rows that the table and the branch have then, and what is said of
    the branch. Or, for a door that there is not, what the error says instead."""

    doors: dict[str, Door]
    begins: str = "written"
    table: list[int] = BASE
    branch: list[int] | None = MORE
    status: str | None = "open"
    answer: Any = None
    refusals: Mapping[str, str] = MappingProxyType({})


VERBS = {
    "branch": Verb(
        {
            "python": lambda uri: Table.open(uri).branch("b"),
            "name": lambda uri: Table.create(f"{uri}@b", ROWS.schema),
            "shell": in_shell("branch", "T", "b"),
            "sql": in_sql("ALTER TABLE {T} CREATE BRANCH b"),
            "create by sql": in_sql("CREATE TABLE {B} (id bigint)"),
        },
        begins="new",
        branch=BASE,
        refusals={"name": r"\.branch\('b'\) makes a branch", "create by sql": r"\.branch\('b'\) makes a branch"},
    ),
    "append": Verb(
        everywhere(
            lambda branch: branch.append(ROWS), in_shell("append", "T@b", "ROWS"), in_sql("INSERT INTO {B} VALUES (3)")
        ),
        begins="made",
    ),
    "diff": Verb(
        everywhere(
            lambda branch: branch.diff().files_added,
            lambda uri: in_shell("diff", "T@b")(uri)["files_added"],
            lambda uri: int(in_sql("ALTER TABLE {T} DIFF BRANCH b")(uri)["value"][0].as_py()),
        ),
        answer=1,
    ),
    "check": Verb(
        everywhere(
            lambda branch: branch.check("id = 3").passed,
            lambda uri: in_shell("check", "T@b", "--check", "id = 3")(uri)["passed"],
            lambda uri: (
                in_sql("ALTER TABLE {T} CHECK BRANCH b 'id = 3', 'id > 0'")(uri)["failed"].to_pylist() == ["0"] * 2
            ),
        ),
        answer=True,
    ),
    "check what fails": Verb(
        everywhere(
            lambda branch: [each.rows.to_pylist() for each in branch.check("id < 3").failures],
            failures_in_shell,
            lambda uri: [literal_eval(in_sql("ALTER TABLE {T} CHECK BRANCH b 'id < 3'")(uri)["rows"][0].as_py())],
        ),
        answer=[[{"id": 3}]],
    ),
    "publish": Verb(
        everywhere(Table.publish, in_shell("publish", "T@b"), in_sql("ALTER TABLE {T} PUBLISH BRANCH b")),
        table=MORE,
        status="published",
    ),
    "rebase": Verb(
        everywhere(Table.rebase, in_shell("rebase", "T@b"), in_sql("ALTER TABLE {T} REBASE BRANCH b")),
        begins="behind",
        table=[*BASE, 9],
        branch=[*MORE, 9],
    ),
    "discard": Verb(
        everywhere(Table.discard, in_shell("discard", "T@b"), in_sql("ALTER TABLE {T} DROP BRANCH b")),
        status="discarded",
    ),
    "list": Verb(
        {
            "python": lambda uri: [each.name for each in Table.open(uri).branches()],
            "shell": lambda uri: [each["name"] for each in in_shell("branches", "T")(uri)["branches"]],
            "sql": lambda uri: in_sql("SHOW BRANCHES {T}")(uri)["branch"].to_pylist(),
        },
        answer=["b"],
    ),
    "audit": Verb(
        {"python": audit, "shell": in_shell("audit", "T"), "sql": in_sql("ALTER TABLE {T} AUDIT BRANCH b")},
        begins="new",
        table=MORE,
        status="published",
        refusals={"shell": "use txlog branch URI NAME", "sql": r"with table\.audit\(checks\)"},
    ),
}
OF_A_TABLE = {
    "publish a table": (in_shell("publish", "T"), "txlog branch URI NAME"),
    "diff a table": (in_shell("diff", "T"), "txlog branch URI NAME"),
    "make a branch of a branch": (in_shell("branch", "T@b", "c"), "a branch has no branches"),
    "check a branch that is not there": (in_shell("check", "T@c"), "Make one with txlog branch URI NAME"),
    "make a branch of a branch in SQL": (in_sql("ALTER TABLE {B} CREATE BRANCH c"), "a branch has no branches"),
    "publish a branch of a branch in SQL": (in_sql("ALTER TABLE {B} PUBLISH BRANCH b"), "a branch has no branches"),
    "publish a branch that is not there in SQL": (
        in_sql("ALTER TABLE {T} PUBLISH BRANCH c"),
        "Make one with ALTER TABLE ... CREATE BRANCH",
    ),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    (tmp_path / "rows.jsonl").write_text('{"id": 3}\n')
    table = Table.create(tmp_path / "t", ROWS.schema)
    table.append(pa.table({"id": pa.array(BASE, pa.int64())}))
    return table.uri


def begin(uri: str, how: str) -> None:
    if how != "new":
        branch = Table.open(uri).branch("b")
        if how != "made":
            branch.append(ROWS)
    if how == "behind":
        Table.open(uri).append(pa.table({"id": pa.array([9], pa.int64())}))


def ids(uri: str) -> list[int]:
    return sorted(Table.open(uri).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_of_branches_does_the_same_at_each_door_or_names_the_way_out(verb: str, uri: str) -> None:
    wanted = VERBS[verb]
    for door, work in wanted.doors.items():
        at = f"{uri}-{door.replace(' ', '-')}"
        shutil.copytree(uri, at)
        begin(at, wanted.begins)
        if door in wanted.refusals:
            with pytest.raises(TxlogError, match=wanted.refusals[door]):
                work(at)
            continue
        answer = work(at)
        assert wanted.answer in (None, answer), door
        assert (ids(at), ids(f"{at}@b")) == (wanted.table, wanted.branch), door
        assert [each.status for each in Table.open(at).branches()] == [wanted.status], door


@pytest.mark.parametrize("what", OF_A_TABLE)
def test_what_a_door_refuses_is_told_in_its_own_words(what: str, uri: str) -> None:
    work, told = OF_A_TABLE[what]
    Table.open(uri).branch("b")
    with pytest.raises(TxlogError, match=told) as raised:
        work(uri)
    assert "table.branch(" not in str(raised.value)
