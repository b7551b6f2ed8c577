"""Which texts the settings of a session concern, and which no setting changes."""

from __future__ import annotations

from typing import Any

import pytest

import txlog
from txlog.errors import UnsupportedFeatureError
from txlog.spark.settings import SessionSettings
from txlog.spark.text_settings import TEXT_SETTINGS, is_concerned, require_reading

RAW, DOUBLE, CONSECUTIVE, TIMES, EXPONENTS, PATTERNS, DIGITS = TEXT_SETTINGS
DEFAULTS = {TIMES: "TIMESTAMP_LTZ", PATTERNS: "CORRECTED", DIGITS: "true"}
VALUES = {TIMES: "TIMESTAMP_NTZ", PATTERNS: "LEGACY", DIGITS: "false"}

CONCERNED = [
    (RAW, r"s = 'a\d'"),
    (RAW, r"s = 'it\'s' AND n = 1"),
    (DOUBLE, 's = "a"'),
    (CONSECUTIVE, "s = 'it''s'"),
    (CONSECUTIVE, "s = ''''"),
    (TIMES, "ts < TIMESTAMP '2024-03-10 00:00:00'"),
    (TIMES, "CAST(s AS timestamp) = ts"),
    (TIMES, "ts < to_timestamp(s)"),
    (EXPONENTS, "n = 1.5E-3"),
    (EXPONENTS, "n = 1e3"),
    (PATTERNS, "to_date(s, 'yyyy') = d"),
    (DIGITS, "n / 3 = 1"),
]
PLAIN = [
    "",
    "1 = 1",
    "s = 'a' OR s = '' OR s IN ('', 'b')",
    "ts < TIMESTAMP_LTZ '2024-03-10 00:00:00' AND tn = TIMESTAMP_NTZ '2024-03-10 00:00:00'",
    r"s RLIKE r'a\d+'",
    "s = 'say \"1e3\" / TIMESTAMP' -- it''s a \\ comment \"",
    "`a\\b` = 1 AND `ts timestamp` = 1 AND e3 = 1 AND n1e3 = 2 /* 'it''s' */",
]


@pytest.mark.parametrize(("setting", "text"), CONCERNED)
@pytest.mark.parametrize("form", [lambda text: text, txlog.expr, lambda text: {"x": txlog.expr(text)}])
def test_a_text_that_a_setting_changes_is_refused_by_its_name(form: Any, setting: str, text: str) -> None:
    settings = SessionSettings.seen_by({setting: VALUES.get(setting, "true")}.get)
    with pytest.raises(UnsupportedFeatureError, match=setting) as caught:
        settings.require_reading(form(text))
    assert text in str(caught.value)
    assert is_concerned(text)
    SessionSettings.seen_by({setting: DEFAULTS.get(setting, "false")}.get).require_reading(form(text))


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_that_means_the_same_under_all_settings_is_not_held_up(text: str) -> None:
    asked: list[str] = []
    require_reading(asked.append, [text, None, {"x": "a plain string"}])
    assert asked == []
    assert not is_concerned(text)


def test_texts_inside_conditions_that_python_builds_are_found_and_its_literals_are_not() -> None:
    settings = SessionSettings({RAW: "true"})
    for given in (txlog.col("s") == "a\\d", txlog.col("s").is_in(["\\"]), txlog.col("s").starts_with("\\")):
        settings.require_reading(given)
        settings.require_reading({"x": txlog.lit("\\")})
    text = txlog.expr(r"upper('\d')")
    inside: tuple[Any, ...] = (
        text == "A",
        ~(txlog.col("s") == text),
        (txlog.col("n") == 1) & (text == "D"),
        text + txlog.col("n"),
    )
    for given in inside:
        with pytest.raises(UnsupportedFeatureError, match=RAW):
            settings.require_reading(given)


def test_a_doubled_quote_is_refused_on_a_spark_that_has_no_setting_for_it() -> None:
    given, none = ["s = 'it''s'"], dict[str, str]()
    require_reading(none.get, given, lambda: "4.1.0")
    with pytest.raises(UnsupportedFeatureError, match=r"Spark 4\.0\.1"):
        require_reading(none.get, given, lambda: "4.0.1")


def test_queries_of_a_script_follow_the_session_and_its_changes_are_refused() -> None:
    query, change = "SELECT TIMESTAMP '2024-03-10 00:00:00'", "DELETE FROM t WHERE ts < TIMESTAMP '2024-03-10 00:00:00'"
    settings = {TIMES: "TIMESTAMP_NTZ"}
    require_reading(settings.get, [query, "SELECT * FROM t TIMESTAMP AS OF '2024-03-10'"], is_script=True)
    with pytest.raises(UnsupportedFeatureError, match=TIMES):
        require_reading(settings.get, [f"{query}; {change}"], is_script=True)
    with pytest.raises(UnsupportedFeatureError, match=TIMES):
        require_reading(settings.get, ["CREATE TABLE t (ts TIMESTAMP)"], is_script=True)
    with pytest.raises(UnsupportedFeatureError, match=RAW):
        require_reading({RAW: "true"}.get, [r"SELECT 'a\d'"], is_script=True)
