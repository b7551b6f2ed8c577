"""What public objects work with, by name: for packages that add to them, and for txlog's own.

In: a `Table`, `Transaction`, `Sink` or `Snapshot`. Out: the object of the core behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from txlog.core.versions._open_table import OpenTable
    from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
    from txlog.core.versions.decisions.state import TableState


class _HasOpenTable(Protocol):
    _open_table: OpenTable


class _HasState(Protocol):
    @property
    def _state(self) -> TableState: ...


class _HasBuilder(Protocol):
    _builder: ProposalBuilder


def open_table_of(table: _HasOpenTable) -> OpenTable:
    """What a `Table`, a `Transaction` or a `Sink` works with, for what a package adds to it."""
    return table._open_table


def state_of(reader: _HasState) -> TableState:
    """The version that a `Snapshot` shows; for a `Transaction`, the version that it began with, with the definition
    that it has given the table so far."""
    return reader._state


def builder_of(transaction: _HasBuilder) -> ProposalBuilder:
    """What a `Transaction` has changed so far, and what it depends on."""
    return transaction._builder
