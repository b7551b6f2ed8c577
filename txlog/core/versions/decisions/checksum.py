"""The version checksum file ``N.crc``: the whole small state of one version, and its number of files and bytes.

In: a table state, or the bytes of such a file. Out: the bytes to write, or a ``VersionChecksum``. The result is
None if the file is invalid or contradicts the commit of its version: the file is optional, so a bad one is no error.
Fields that the file leaves out are unknown, not empty. PROTOCOL.md, "Version Checksum File".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
import orjson

from txlog.core.format.actions import Action, DomainMetadata, Metadata, Protocol, SetTransaction
from txlog.core.format.commit_file import DEFAULT_LIMITS, Commit, LogLimits
from txlog.core.format.wire import ActionError
from txlog.core.versions.decisions.state import TableState, Totals

_APPLICATIONS_MAX = 1000
_UNSIGNED_MAX = 2**63 - 1

T = TypeVar("T", SetTransaction, DomainMetadata)


class VersionChecksum(msgspec.Struct, frozen=True):
    """The content of one file. ``transactions`` and ``domains`` are None if the file does not list them."""

    version: int
    protocol: Protocol
    metadata: Metadata
    totals: Totals
    transactions: tuple[SetTransaction, ...] | None
    domains: tuple[DomainMetadata, ...] | None
    in_commit_timestamp_ms: int | None
    txn_id: str | None

    @property
    def actions(self) -> tuple[Action, ...]:
        return (self.protocol, self.metadata, *(self.transactions or ()), *(self.domains or ()))

    @property
    def is_whole(self) -> bool:
        """Whether it holds everything but the list of files."""
        has_domains = self.domains is not None or "domainMetadata" not in (self.protocol.writer_features or ())
        return self.transactions is not None and has_domains

    def agrees_with(self, commit: Commit) -> bool:
        """Whether this can be the state right after ``commit``, the commit of its version."""
        if commit.version != self.version or commit.in_commit_timestamp_ms != self.in_commit_timestamp_ms:
            return False
        if self.txn_id is not None and self.txn_id != commit.txn_id:
            return False
        if self.version == 0 and not {*self._identities(self.actions)} <= {*self._identities(commit.actions)}:
            return False  # the first commit has no earlier state, so the file must show exactly that commit
        return all(self._shows(action) for action in commit.actions)

    @staticmethod
    def _identities(actions: Iterable[Action]) -> Iterator[tuple[str, str | None]]:
        for action in actions:
            yield action.KEY, getattr(action, "app_id", None) or getattr(action, "domain", None)

    def _shows(self, action: Action) -> bool:
        if isinstance(action, Protocol):
            return action == self.protocol
        if isinstance(action, Metadata):
            return action == self.metadata
        if isinstance(action, SetTransaction) and self.transactions is not None:
            return action in self.transactions
        if isinstance(action, DomainMetadata) and self.domains is not None:
            names = {domain.domain for domain in self.domains}
            return action.domain not in names if action.removed else action in self.domains
        return True


def checksum_bytes(state: TableState, totals: Totals, txn_id: str | None = None) -> bytes:
    """The file for ``state``. If there are too many applications for a small file, they are left out, which means
    "unknown".

    They are also left out if ``delta.setTransactionRetentionDuration`` is set: which of them are live then depends on
    the time of reading, and Spark, which leaves them out too, would report a contradiction.
    """
    content: dict[str, Any] = {} if txn_id is None else {"txnId": txn_id}
    content |= {
        "tableSizeBytes": totals.size_bytes,
        "numFiles": totals.num_files,
        "numMetadata": 1,
        "numProtocol": 1,
        "domainMetadata": [domain.to_json() for domain in state.domains.values()],
    }
    if state.in_commit_timestamp_ms is not None:
        content["inCommitTimestampOpt"] = state.in_commit_timestamp_ms
    if state.properties.set_transaction_retention_ms is None and len(state.transactions) <= _APPLICATIONS_MAX:
        content["setTransactions"] = [transaction.to_json() for transaction in state.transactions.values()]
    return orjson.dumps({**content, "metadata": state.metadata.to_json(), "protocol": state.protocol.to_json()})


def parse_checksum(body: bytes, version: int, *, limits: LogLimits = DEFAULT_LIMITS) -> VersionChecksum | None:
    """The content of ``N.crc``; None if it is torn, malformed, contradicts itself or passes ``limits.line_bytes``."""
    if len(body) > limits.line_bytes:
        return None
    try:
        content = orjson.loads(body)
        return _checksum(content, version) if isinstance(content, Mapping) else None
    except (ActionError, ValueError, TypeError):  # a JSONDecodeError is a ValueError
        return None


def _checksum(content: Mapping[str, Any], version: int) -> VersionChecksum | None:
    if any(content.get(key, 1) != 1 for key in ("numMetadata", "numProtocol")):
        return None
    return VersionChecksum(
        version=version,
        protocol=Protocol.from_json(content.get("protocol")),
        metadata=Metadata.from_json(content.get("metadata")),
        totals=Totals(_count(content.get("numFiles")), _count(content.get("tableSizeBytes"))),
        transactions=_listed(SetTransaction, "app_id", content.get("setTransactions")),
        domains=_listed(DomainMetadata, "domain", content.get("domainMetadata")),
        in_commit_timestamp_ms=_optional_count(content.get("inCommitTimestampOpt")),
        txn_id=content["txnId"] if type(content.get("txnId")) is str else None,
    )


def _listed(kind: type[T], key: str, value: Any) -> tuple[T, ...] | None:
    """None if the list is absent. Raises ``ValueError`` if it holds an application or domain twice."""
    if value is None:
        return None
    found: tuple[T, ...] = tuple(kind.from_json(item) for item in _list(value))
    if len({getattr(action, key) for action in found}) < len(found):
        raise ValueError(f"one {key} is listed twice")
    return tuple(action for action in found if not getattr(action, "removed", False))


def _list(value: Any) -> Iterable[Any]:
    if type(value) is not list:
        raise ValueError("not a list")
    return value


def _optional_count(value: Any) -> int | None:
    return None if value is None else _count(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _UNSIGNED_MAX:
        raise ValueError("not a count")
    return value
