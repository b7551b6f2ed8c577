"""Version checksum files: what one says is believed only where it says all of it and agrees with its commit."""

from __future__ import annotations

from typing import Any

import orjson

from txlog.core.format.actions import DomainMetadata
from txlog.core.format.commit_file import Commit
from txlog.core.versions.decisions.checksum import VersionChecksum, parse_checksum

DOMAIN = {"domain": "mine", "configuration": "x", "removed": False}
METADATA = {
    "id": "t",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": '{"type":"struct","fields":[]}',
    "partitionColumns": [],
    "configuration": {},
}


def reported(**changes: Any) -> VersionChecksum | None:
    content = {
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [DOMAIN],
        "metadata": METADATA,
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata"]},
        **changes,
    }
    return parse_checksum(orjson.dumps({key: value for key, value in content.items() if value is not None}), 5)


def test_a_checksum_file_with_a_domain_that_its_commit_removed_is_of_another_commit() -> None:
    found = reported()
    assert found is not None
    assert found.agrees_with(Commit(5, (DomainMetadata("mine", "x", removed=False),), None, 1))
    assert not found.agrees_with(Commit(5, (DomainMetadata("mine", "", removed=True),), None, 1))
    assert found.agrees_with(Commit(5, (DomainMetadata("other", "", removed=True),), None, 1))


def test_domains_that_are_not_listed_are_unknown_where_the_table_may_have_some() -> None:
    listed, unlisted = reported(), reported(domainMetadata=None)
    assert listed is not None
    assert unlisted is not None
    assert (listed.is_whole, unlisted.is_whole) == (True, False)
    without_feature = reported(domainMetadata=None, protocol={"minReaderVersion": 1, "minWriterVersion": 2})
    assert without_feature is not None
    assert without_feature.is_whole


def test_an_application_or_a_domain_that_is_listed_twice_makes_no_sense() -> None:
    transactions = [{"appId": "a", "version": version} for version in (1, 2)]
    assert reported(setTransactions=transactions) is None
    assert reported(domainMetadata=[DOMAIN, {**DOMAIN, "configuration": "y"}]) is None
    assert reported(setTransactions=transactions[:1]) is not None
