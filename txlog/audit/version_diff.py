"""What changed between two versions of a table: its definition, its files, and its rows where the change feed has them.

In: an open table and two versions. Out: a `VersionDiff`. No data file is read, except change data where the feed is on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from txlog.core.format.actions import AddFile, Protocol
from txlog.core.format.change_data import CHANGE_TYPE, DELETE, INSERT, UPDATE_POSTIMAGE
from txlog.core.format.clustering import clustering_columns
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.features import features_of
from txlog.core.format.file_statistics import live_row_counts
from txlog.core.format.paths import canonical_path
from txlog.core.format.properties import BRANCH, path_text
from txlog.core.format.schema import Field, type_name
from txlog.core.maintenance import difference
from txlog.core.operations import VersionSpan, read_changes
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.result import sum_if_known
from txlog.result.audits import Change, RowChanges, VersionDiff


def diff_versions(open_table: OpenTable, *, from_version: int, to_version: int) -> VersionDiff:
    """Compare two versions. Raises what `Table.diff` raises."""
    log = open_table.log
    before, after = log.state_at(from_version), log.state_at(to_version)
    files_before, files_after = log.files(before), log.files(after)
    found = difference(files_before, files_after)
    gone, come = _by_path(found.added), _by_path(found.removed)
    marked = gone.keys() & come.keys()
    rows, unknown = _row_changes(open_table, from_version, to_version)
    return VersionDiff(
        from_version=from_version,
        to_version=to_version,
        columns=tuple(_columns(before, after)),
        definition=tuple(_differing(_definition(before), _definition(after))),
        properties=tuple(_differing(*map(_properties, (before, after)))),
        files_added=len(come.keys() - marked),
        bytes_added=sum(add.size for path, add in come.items() if path not in marked),
        files_removed=len(gone.keys() - marked),
        bytes_removed=sum(add.size for path, add in gone.items() if path not in marked),
        files_marked=len(marked),
        rows_before=sum_if_known(live_row_counts(files_before).to_pylist()),
        rows_after=sum_if_known(live_row_counts(files_after).to_pylist()),
        rows=rows,
        rows_unknown=unknown,
    )


def _by_path(files: Iterable[AddFile]) -> dict[str, AddFile]:
    return {canonical_path(add.path): add for add in files}


def _columns(before: TableState, after: TableState) -> list[Change]:
    """A renamed column is the one with the same name in files."""
    old = {physical_name(field): field for field in before.schema.fields}
    new = {physical_name(field): field for field in after.schema.fields}
    found = []
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name), new.get(name)
        if was is None or now is None or (was.name, _typed(was)) != (now.name, _typed(now)):
            renamed = was is not None and now is not None and was.name != now.name
            texts = [
                None if each is None else (f"{each.name} " if renamed else "") + _typed(each) for each in (was, now)
            ]
            found.append(Change((was or new[name]).name, *texts))
    return found


def _typed(field: Field) -> str:
    return f"{type_name(field.type)}{'' if field.nullable else ' not null'}"


def _definition(state: TableState) -> dict[str, str]:
    metadata = state.metadata
    clustered_by = ", ".join(map(path_text, clustering_columns(state.domains, state.schema)))
    found = {
        "partitioned by": ", ".join(state.partition_columns),
        "clustered by": clustered_by,
        "protocol": _protocol(state.protocol),
        "name": metadata.name or "",
        "description": metadata.description or "",
    }
    return {name: text for name, text in found.items() if text}


def _properties(state: TableState) -> dict[str, str]:
    """The properties that somebody set; what a branch keeps of itself is none."""
    return {key: value for key, value in state.metadata.configuration.items() if key != BRANCH}


def _protocol(protocol: Protocol) -> str:
    names = ", ".join(sorted({name for names in features_of(protocol) for name in names}))
    return f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version} ({names})"


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    names = sorted({*before, *after})
    return [Change(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def _row_changes(open_table: OpenTable, first: int, last: int) -> tuple[RowChanges | None, str | None]:
    if first >= last:
        return (RowChanges(0, 0, 0), None) if first == last else (None, "the feed reads versions in their order")
    counts: Counter[str] = Counter()

    def count() -> None:
        for batch in read_changes(open_table, VersionSpan(first + 1, last), [], None):
            kinds = batch.column(CHANGE_TYPE.name).value_counts()
            counts.update({each["values"]: each["counts"] for each in kinds.to_pylist()})

    problem = _problem_of(count)
    found = RowChanges(counts[INSERT], counts[UPDATE_POSTIMAGE], counts[DELETE])
    return (found, None) if problem is None else (None, problem)


def _problem_of(read: Callable[[], None]) -> str | None:
    try:
        read()
    except (InvalidInputError, NotFoundError, UnsupportedFeatureError) as error:
        return error.message
    return None
