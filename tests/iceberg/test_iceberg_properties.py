"""The property that names an entry of an Iceberg catalog."""

from __future__ import annotations

import pytest

from txlog.core.format.properties import validate
from txlog.errors import InvalidInputError
from txlog.iceberg.metadata.properties import ICEBERG_CATALOG, catalog_entry


@pytest.mark.parametrize("name", ["prod.sales.orders", "prod.eu.sales.orders"])
def test_a_name_has_a_catalog_one_namespace_or_more_and_a_table(name: str) -> None:
    assert validate({ICEBERG_CATALOG: name}) == {ICEBERG_CATALOG: name}
    assert catalog_entry({ICEBERG_CATALOG: name}) == name


@pytest.mark.parametrize(
    "name", ["", "orders", "prod.orders", "prod..orders", ".sales.orders", "prod.sales.", "a.b c.d"]
)
def test_another_name_is_refused_with_the_form_it_should_have(name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"catalog\.namespace\.table"):
        validate({ICEBERG_CATALOG: name})
