"""What a branch changed beside its rows, and whether its table gets it: the files that it loaded, clustering columns,
metadata domains of others, and every part of the definition."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txlog import Table
from txlog.core.format import loaded_files
from txlog.core.format.actions import DomainMetadata, Protocol
from txlog.core.format.clustering import clustering_columns
from txlog.core.format.features import merged
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.errors import ConcurrentAppendError, MetadataChangedError
from txlog.testing.faults import StoreCall, faulty_table_store

Does = Callable[[Table], Any]


def made(path: Path, properties: dict[str, str] | None = None) -> Table:
    return Table.create(path / "t", "id bigint, n bigint", properties=properties or {})


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(ids, pa.int64())})


def ids(table: Table) -> list[int]:
    return sorted(Table.open(table.uri).to_arrow()["id"].to_pylist())


def arrived(path: Path, *names: int) -> str:
    """A folder with a file of each of these rows."""
    folder = path / "landing"
    folder.mkdir(exist_ok=True)
    for each in names:
        pq.write_table(rows_of(each), folder / f"{each}.parquet")
    return str(folder)


def state_of(table: Table) -> TableState:
    return Table.open(table.uri)._open_table.log.newest_state()


def clustering(table: Table) -> list[tuple[str, ...]]:
    state = state_of(table)
    return [*clustering_columns(state.domains, state.schema)]


def put_domain(table: Table, text: str | None, name: str = "my.app") -> None:
    """Set a metadata domain, as another engine does."""
    open_table = Table.open(table.uri)._open_table
    state = open_table.log.newest_state()
    builder = ProposalBuilder(state)
    protocol = merged(state.protocol, Protocol(1, 7, None, ("domainMetadata",)))
    builder.define(None, None if protocol == state.protocol else protocol)
    builder.set_domain(DomainMetadata(name, text or "", text is None))
    open_table.commit_change(builder, OperationInfo("SET", {}))


def domain(table: Table, name: str = "my.app") -> str | None:
    found = state_of(table).domains.get(name)
    return None if found is None else found.configuration


# --- loaded files -----------------------------------------------------------------------------------------------------


def test_a_file_that_an_audited_load_took_is_not_loaded_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    for day in (1, 2, 3):
        with table.audit("id > 0") as staged:
            staged.copy_into(arrived(tmp_path, day))
    assert Table.open(table.uri).copy_into(arrived(tmp_path)).files == ()
    assert ids(table) == [1, 2, 3]


@pytest.mark.parametrize("is_rebased", [False, True])
def test_what_both_sides_loaded_is_known_to_both(
    is_rebased: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_files, "SEGMENT_FILES", 2)
    table = made(tmp_path)
    table.copy_into(arrived(tmp_path, 1))
    branch = table.branch("b")
    branch.copy_into(arrived(tmp_path, 2, 3, 4), pattern="[234].parquet")
    table.copy_into(arrived(tmp_path, 5, 6), pattern="[56].parquet")
    table.add_columns("extra int")
    if is_rebased:
        branch.rebase()
        assert Table.open(branch.uri).copy_into(arrived(tmp_path)).files == ()
    branch.publish(keep=True)
    branch.copy_into(arrived(tmp_path, 7), pattern="7.parquet")
    branch.publish()
    assert Table.open(table.uri).copy_into(arrived(tmp_path)).files == ()
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("is_rebased", [False, True])
def test_a_file_that_both_sides_loaded_is_not_published(is_rebased: bool, tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.copy_into(arrived(tmp_path, 1))
    if is_rebased:  # it carries the load along
        table.append(rows_of(10))
        branch.rebase()
    table.copy_into(arrived(tmp_path, 1, 2))
    before = ids(table)
    for act in (branch.publish, branch.rebase):
        with pytest.raises(
            ConcurrentAppendError, match=r"loaded a file that the branch loaded too.*discard the branch"
        ):
            act()
    assert ids(table) == before


@pytest.mark.parametrize("name", ["2.parquet", "3.parquet"])
def test_a_file_that_is_loaded_while_a_branch_is_published_is_found(name: str, tmp_path: Path) -> None:
    uri, folder = made(tmp_path).uri, arrived(tmp_path, 1, 2, 3)
    Table.open(uri).copy_into(folder, pattern="1.parquet")
    rivals = [lambda: Table.open(uri).copy_into(folder, pattern=name)]

    def decide(call: StoreCall) -> None:
        if call.operation == "put_if_absent" and rivals and is_publishing:
            rivals.pop()()

    is_publishing = False
    branch = Table(OpenTable(faulty_table_store(open_store(uri), decide))).branch("b")
    branch.copy_into(folder, pattern="2.parquet")
    is_publishing = True
    with pytest.raises(ConcurrentAppendError, match="loaded too") if name == "2.parquet" else nullcontext():
        branch.publish()
    assert not rivals
    Table.open(uri).copy_into(folder)
    assert ids(Table.open(uri)) == [1, 2, 3]


# --- other domains ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_rebased", [False, True])
def test_domains_that_a_branch_set_or_removed_are_published(is_rebased: bool, tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    put_domain(branch, "one")
    branch.cluster_by("n")
    if is_rebased:
        table.append(rows_of(1))
        branch.rebase()
    assert branch.publish(keep=True).outcome == "committed"
    assert (domain(table), clustering(table)) == ("one", [("n",)])
    put_domain(branch, None)
    put_domain(branch, "two", "other")
    branch.cluster_by(None)
    branch.publish()
    assert (domain(table), domain(table, "other"), clustering(table)) == (None, "two", [])
    assert Table.open(table.uri).verify().is_sound


@pytest.mark.parametrize("name", ["my.app", "delta.clustering"])
def test_a_domain_that_both_sides_changed_is_a_conflict_that_names_it(name: str, tmp_path: Path) -> None:
    table = made(tmp_path)
    changes: list[tuple[Does, Does]] = [
        (lambda t: put_domain(t, "ours"), lambda t: put_domain(t, "theirs")),
        (lambda t: t.cluster_by("id"), lambda t: t.cluster_by("n")),
    ]
    ours, theirs = changes[name == "delta.clustering"]
    same, other = table.branch("same"), table.branch("other")
    theirs(same)
    ours(other)
    theirs(table)
    same.publish()
    for act in (other.publish, other.rebase):
        with pytest.raises(MetadataChangedError, match=f"changed metadata domain '{name}', as the branch does"):
            act()
    assert (domain(table), clustering(table)) == (("theirs", []) if name == "my.app" else (None, [("n",)]))


def test_a_rebase_takes_over_the_clustering_of_the_table(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(1))
    table.cluster_by("n")
    branch.rebase()
    assert clustering(branch) == [("n",)]
    table.cluster_by("id")
    branch.publish()
    assert clustering(table) == [("id",)]


@pytest.mark.parametrize("act", [Table.publish, Table.rebase], ids=["publish", "rebase"])
def test_a_branch_does_not_drop_a_column_by_which_its_table_is_clustered_by_now(act: Does, tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.columnMapping.mode": "name"})
    branch = table.branch("b")
    branch.drop_columns("n")
    table.cluster_by("n")
    with pytest.raises(MetadataChangedError, match="or those that it is clustered by"):
        act(branch)
    assert clustering(table) == [("n",)]


# --- all kinds --------------------------------------------------------------------------------------------------------

KINDS: dict[str, Does] = {
    "property": lambda t: t.set_properties({"delta.targetFileSize": "32mb", "mine": "1"}),
    "property that is unset": lambda t: t.unset_properties(["owner"]),
    "constraint": lambda t: t.add_constraint("small", "id < 1000"),
    "column": lambda t: t.add_columns("more string"),
    "default": lambda t: t.alter_column("n", default="7"),
    "comment": lambda t: t.alter_column("n", comment="a number"),
    "order": lambda t: t.alter_column("n", first=True),
    "type": lambda t: t.alter_column("small", type="bigint"),
    "not null": lambda t: t.alter_column("n", nullable=False),
    "description": lambda t: t.set_description("orders of a day", name="orders"),
    "identity": lambda t: t.append(pa.table({"id": [5], "n": [5]})),
    "clustering": lambda t: t.cluster_by("n"),
    "domain": lambda t: put_domain(t, "x"),
}


def test_each_kind_of_change_reaches_the_table_as_if_it_were_made_there(tmp_path: Path) -> None:
    found = []
    for way in ("direct", "published"):
        table = Table.create(
            tmp_path / way,
            "id bigint, n bigint, small int, num bigint generated by default as identity",
            properties={
                "owner": "me",
                "delta.enableTypeWidening": "true",
                "delta.feature.allowColumnDefaults": "supported",
            },
        )
        place = table if way == "direct" else table.branch("b")
        for change in KINDS.values():
            change(place)
        if place is not table:
            place.publish()
        state = state_of(table)
        fields = {field.name: (field.type, field.nullable, field.metadata) for field in state.schema.fields}
        assert fields.pop("num")[2]["delta.identity.highWaterMark"] > 0  # a branch has numbers of its own
        domains = {each.domain: each.configuration for each in state.domains.values()}
        metadata = state.metadata
        found.append((fields, [*fields], metadata.configuration, metadata.name, metadata.description, domains))
    assert found[0] == found[1]
