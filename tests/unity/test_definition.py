"""What a commit changes of a definition, in the catalog's terms: only what differs, and nothing that it derives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from txlog.core.format.actions import DomainMetadata, Format, Metadata, Protocol
from txlog.unity.definition import creation, definition_updates
from txlog.unity.messages import ProtocolInfo, TableInfo

DERIVED = {
    "delta.minReaderVersion": "3",
    "delta.feature.catalogManaged": "supported",
    "delta.rowTracking.rowIdHighWaterMark": "7",
    "delta.lastUpdateVersion": "4",
}


def column(name: str, type: str = "long", comment: str | None = None) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {} if comment is None else {"comment": comment}}


def metadata(*columns: dict[str, Any], properties: Mapping[str, str] | None = None) -> Metadata:
    schema = json.dumps({"type": "struct", "fields": columns})
    return Metadata("id", schema, (), dict(properties or {}), Format())


def known(*columns: dict[str, Any], properties: Mapping[str, str] | None = None) -> TableInfo:
    return TableInfo(
        table_type="MANAGED",
        table_uuid="uuid",
        location="s3://bucket/t",
        columns={"type": "struct", "fields": list(columns)},
        properties=properties or {},
    )


def domain(name: str, removed: bool = False) -> DomainMetadata:
    return DomainMetadata(name, '{"columns":["id"]}', removed)


def test_a_definition_that_the_catalog_has_already_is_not_sent() -> None:
    same = {"my.own": "1"}
    assert definition_updates([metadata(column("id"), properties=same)], known(column("id"), properties=same)) == []


@pytest.mark.parametrize(
    "changed", [column("renamed"), column("id", "string"), column("id", comment="the number of the order")]
)
def test_a_column_that_is_renamed_retyped_or_commented_is_sent_though_the_number_of_columns_is_the_same(
    changed: dict[str, Any],
) -> None:
    updates = definition_updates([metadata(changed)], known(column("id")))
    assert updates == [{"action": "set-columns", "columns": {"type": "struct", "fields": [changed]}}]


def test_a_property_that_is_gone_is_removed_and_one_that_the_catalog_derives_never_is() -> None:
    before = known(column("id"), properties={**DERIVED, "gone": "1", "kept": "1", "changed": "1"})
    after = metadata(column("id"), properties={"kept": "1", "changed": "2"})
    assert definition_updates([after], before) == [
        {"action": "set-properties", "updates": {"changed": "2"}},
        {"action": "remove-properties", "removals": ["gone"]},
    ]


def test_a_domain_is_set_or_removed_and_those_that_the_catalog_does_not_have_stay_in_the_log() -> None:
    actions = [domain("delta.clustering"), domain("delta.rowTracking", removed=True), domain("my.own")]
    assert definition_updates(actions, known()) == [
        {"action": "set-domain-metadata", "updates": {"delta.clustering": {"columns": ["id"]}}},
        {"action": "remove-domain-metadata", "domains": ["delta.rowTracking"]},
    ]


def test_a_creation_names_only_the_domains_that_the_table_has() -> None:
    actions = [Protocol(3, 7, (), ()), metadata(column("id")), domain("delta.clustering", removed=True)]
    request = creation("t", "s3://bucket/t", "MANAGED", actions, 5)
    assert (request.domain_metadata, request.protocol) == (None, ProtocolInfo(3, 7, (), ()))
