"""Tools that know nothing about tables, and have no clock, chance or threads: arguments, hints for other libraries'
names, the text of tables and pages, and what is computed on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.util._api_hints import (
        Hinted,
        WrongCallError,
        explains_call,
        explains_calls,
        explains_names,
        explains_options,
        no_attribute,
    )
    from txlog.core.util._apply import Apply
    from txlog.core.util._arguments import (
        UTC,
        check_text,
        described,
        invalid,
        names_in,
        one_of,
        type_name_of,
        whole_number,
    )
    from txlog.core.util._extras import how_to_install
    from txlog.core.util._html import Markup, element, html_facts, html_table
    from txlog.core.util._lazy import cached_property, face, pattern
    from txlog.core.util._logs import logger
    from txlog.core.util._text_table import shortened, text_records, text_table
    from txlog.core.util._values import public_fields, repr_without
else:
    from txlog.core.util._lazy import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _api_hints: Hinted WrongCallError explains_call explains_calls explains_names explains_options no_attribute
        _apply: Apply
        _arguments: UTC check_text described invalid names_in one_of type_name_of whole_number
        _extras: how_to_install
        _html: Markup element html_facts html_table
        _lazy: cached_property face pattern
        _logs: logger
        _text_table: shortened text_records text_table
        _values: public_fields repr_without
        """,
    )

__all__ = [
    "UTC",
    "Apply",
    "Hinted",
    "Markup",
    "WrongCallError",
    "cached_property",
    "check_text",
    "described",
    "element",
    "explains_call",
    "explains_calls",
    "explains_names",
    "explains_options",
    "face",
    "how_to_install",
    "html_facts",
    "html_table",
    "invalid",
    "logger",
    "names_in",
    "no_attribute",
    "one_of",
    "pattern",
    "public_fields",
    "repr_without",
    "shortened",
    "text_records",
    "text_table",
    "type_name_of",
    "whole_number",
]
