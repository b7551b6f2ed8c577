"""Extends txlog by a merge engine, a catalog, and a journal of commits. docs/extend.md explains the points."""

import json
from pathlib import Path
from uuid import uuid4

from txlog.errors import TableExistsError, TableNotFoundError
from txlog.extend import Background, CatalogScheme, PropertyRule, TablePlace, require_no_token
from txlog.extend.merge_engines import MergeEngine, ranks


class Greatest(MergeEngine, frozen=True):
    """txlog.merge-engine = greatest: each column has the greatest of its values, whatever order they come in."""

    name = "greatest"

    @classmethod
    def of(cls, options):
        for column in options.schema.names:
            if column not in options.keys:
                options.check_ordered("merge-engine", column)
        return cls(keys=options.keys, ignores_deletes=options.is_true("ignore-delete"))

    def column(self, name, runs, rows):
        values = rows.column(name)
        by_value = runs.sorted_by(ranks(values))
        return by_value.picked(values, by_value.last(by_value.valid(values)))

    def is_commutative(self, columns, *, retracts=True, deletes=True):
        return not retracts


class FolderOfNames:
    """acme:///folder: a catalog that has a file for each name, which says where the table is."""

    def __init__(self, uri, storage_options):
        self.uri, self.storage_options = uri, storage_options
        self.folder = Path(uri.removeprefix("acme://"))

    def resolve(self, name):
        try:
            return TablePlace((self.folder / name).read_text(), name, self.storage_options)
        except FileNotFoundError:
            raise TableNotFoundError(f"{self.uri} has no table {name}", table=self.uri) from None

    def tables(self, schema=None):
        return sorted(file.name for file in self.folder.iterdir() if file.is_file())

    def create(self, name, make):
        place = TablePlace(str(self.folder / "tables" / uuid4().hex), name, self.storage_options)
        made = make(place)
        self.register(name, place.uri)
        return made

    def register(self, name, uri):
        try:
            with open(self.folder / name, "x") as file:  # of two that take a name, one fails
                file.write(uri)
        except FileExistsError:
            raise TableExistsError(f"{self.uri} has a table {name} already", table=self.uri) from None

    def require_registrable(self, name):
        pass

    def drop(self, name):
        (self.folder / self.resolve(name).name).unlink()

    def rename(self, name, to):
        self.register(to, self.resolve(name).uri)
        self.drop(name)


class Journal:
    """txlog.acme.journal = FILE: a line of JSON for each commit that a handle makes."""

    def __init__(self, log):
        self.background = Background("acme-journal")

    def after(self, state):
        with open(state.metadata.configuration["txlog.acme.journal"], "a") as file:
            print(json.dumps({"table": state.metadata.id, "version": state.version}), file=file)


SCHEME = CatalogScheme(
    opens=lambda uri, token, options, credentials: require_no_token(token) or FolderOfNames(uri, options)
)
JOURNAL = PropertyRule(str, "the path of a file", is_of_one_table=True)
