"""Texts of Spark's SQL, and rows of every type, that test_spark_values.py and tests/statements/test_values.py compare.

`texts()` gives each text with its kind: ``row`` is an expression of one row, ``group`` one of the rows with one ``g``,
``window`` one of a row among those with its ``g``, and ``query`` a whole query of the table ``t``.
"""

# ruff: noqa: E501
from __future__ import annotations

import datetime
import decimal
import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

ROWS = 48
UTC = datetime.timezone.utc

REALS = [0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 2.675, math.nan, math.inf, -math.inf, 1e300, 5e-324, 1e7, 123456.789, 1e15]
WORDS = [
    *(
        "",
        " ",
        "a",
        "A",
        "ab",
        " ab ",
        "Ab%_",
        "a_b",
        "a\\b",
        "it's",
        "é",
        "straße",
        "ΑΣ",
        "日本",
        "😀x",
        "a,b,c",
        "aaa",
    ),
    *("a1b22", "Hello World", "line\nbreak", "k:v", "x" * 30, "null", "\ttab\t", "e\u0301"),
]
NUMERALS = [
    *("12", " 7 ", "+5", "-3", "1.5", "-0", "0", "00012", "1e3", ".5", "5.", "1,000", "0x1F", "NaN", "inf", "", "abc"),
    *("9999999999", "true", "t", "no", "2147483648", "1 2", "12.345"),
]
DAY_TEXTS = [
    *("2024-01-01", "2024-1-1", "2024-02-30", "20240101", "2024", "2024-02", "1582-10-10", "0001-01-01", "9999-12-31"),
    *("2024-01-01 10:00:00", "2024-01-01T10:00:00Z", "2024-01-01 10:00:00+02:00", "2024-01-01 10:00:00.123456", "now"),
    *("", "2024-01-01 25:00:00", " 2024-01-01 ", "2024/01/01", "2024-06-15 10:00:00 Europe/Berlin"),
]
DAYS = [
    datetime.date(*each)
    for each in ((1970, 1, 1), (1969, 12, 31), (1582, 10, 10), (1, 1, 1), (9999, 12, 31), (2024, 2, 29), (2023, 2, 28))
] + [datetime.date(2024, 1, 31), datetime.date(2024, 12, 30), datetime.date(2021, 1, 3), datetime.date(2000, 1, 1)]
MOMENTS = [
    datetime.datetime(*each)
    for each in (
        (1970, 1, 1),
        (1969, 12, 31, 23, 59, 59, 999999),
        (1582, 10, 10, 12),
        (1, 1, 1),
        (9999, 12, 31, 23, 59, 59, 999999),
        (2024, 3, 31, 1, 30),
        (2024, 10, 27, 0, 30),
        (2024, 2, 29, 12, 0, 0, 1),
        (2024, 1, 31, 10, 20, 30),
    )
]
JSON_TEXTS = [
    *('{"a": 1}', '{"a": "x"}', '{"a": null}', '{"a": 1.50}', '{"b": [1, "two"]}', '{"c": {"d": "e"}}', "{}", "[]", ""),
    *("null", "{bad", '{"a": true}', '{"A": 1}', ' {"a" : 1 } '),
]


def _integers(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    return [0, 1, 2, 3, -1, -2, 5, 10, top - 1, -top]


def _decimals(precision: int, scale: int) -> list[decimal.Decimal]:
    top = 10**precision - 1
    given = [0, 1, -1, 5, -5, 15, 25, 150, 250, -250, 12345, top, -top]
    context = decimal.Context(prec=60)
    return [decimal.Decimal(each).scaleb(-scale, context) for each in given]


_COLUMNS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "y": (pa.int8(), _integers(8)),
    "h": (pa.int16(), _integers(16)),
    "i": (pa.int32(), _integers(32)),
    "j": (pa.int32(), _integers(32)),
    "l": (pa.int64(), _integers(64)),
    "k": (pa.int64(), _integers(64)),
    "n": (pa.int32(), [-3, -2, -1, 0, 1, 2, 3, 7]),
    "p": (pa.int32(), [1, 2, 3, 4, 5]),
    "f": (pa.float32(), [0.0, -0.0, 1.5, 2.5, 0.1, math.nan, math.inf, 1e30, -7.25]),
    "d": (pa.float64(), REALS),
    "e": (pa.float64(), REALS),
    "m": (pa.decimal128(10, 2), _decimals(10, 2)),
    "o": (pa.decimal128(12, 4), _decimals(12, 4)),
    "w": (pa.decimal128(38, 10), _decimals(38, 10)),
    "s": (pa.string(), WORDS),
    "t2": (pa.string(), ["", "a", "b", "ab", "A", " ", "é", "1"]),
    "number": (pa.string(), NUMERALS),
    "day": (pa.string(), DAY_TEXTS),
    "b": (pa.bool_(), [True, False]),
    "c": (pa.bool_(), [True, False]),
    "x": (pa.binary(), [b"", b"\x00", b"\xff\xfe", b"abc", "é".encode(), b"x" * 60]),
    "dt": (pa.date32(), DAYS),
    "du": (pa.date32(), DAYS),
    "ts": (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=UTC) for moment in MOMENTS]),
    "tu": (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=UTC) for moment in MOMENTS]),
    "tn": (pa.timestamp("us"), MOMENTS),
    "a": (pa.list_(pa.int32()), [[], [None], [1], [1, 2, 3], [3, 1, 2, 1], [1, None, 2]]),
    "as": (pa.list_(pa.string()), [[], [None], ["a"], ["", "b"], ["a", None, "c"]]),
    "mp": (pa.map_(pa.string(), pa.int32()), [[], [("a", 1)], [("a", None)], [("b", 2), ("a", 3)]]),
    "st": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 2, "y": ""}],
    ),
    "js": (pa.string(), JSON_TEXTS),
}


def table() -> pa.Table:
    """The rows: ``id`` counts them, and ``g`` is the same in six; in the last group, all else is null."""
    draw = random.Random(58)
    columns: dict[str, pa.Array] = {
        "id": pa.array(range(ROWS), pa.int32()),
        "g": pa.array([number // 6 for number in range(ROWS)], pa.int32()),
    }
    for name, (kind, values) in _COLUMNS.items():
        whole = list(itertools.islice(itertools.cycle([*values, None]), ROWS - 6))
        draw.shuffle(whole)
        columns[name] = pa.array([*whole, *[None] * 6], kind)
    return pa.table(columns)


NUMBERS = ("y", "h", "i", "l", "n", "p", "f", "d", "m", "o", "w")
ROW = """
1|1L|1S|1Y|1.5|1.5D|1.5F|1e3|9223372036854775807|99999999999999999999|2147483648|-2147483648|'it''s'|'it\\'s'|'a\\nb'
r'a\\nb'|"x"|X'0AFF'|TRUE|NULL|DATE '2026-11-20'|DATE '0001-01-01'|TIMESTAMP '2026-11-20 08:15:00.123456'|'a' 'b'
TIMESTAMP '2026-11-20T08:15:00+02:00'|TIMESTAMP_NTZ '2026-11-20 08:15:00'|INTERVAL 3 DAYS|0.1 + 0.2|1.10|map()
i BETWEEN -3 AND j|i IN (1, 2, NULL)|i NOT IN (1, 2)|i IS NULL|s IS NOT NULL|b IS TRUE|b IS NOT TRUE|b IS FALSE|NOT b
d > 1e300|d = 0|d IN (0, 2.5)|l = 9007199254740993e0|m = '1.5'|s = t2|s < t2|number = 12|i = '1'|i = '1.5'|dt = '2024-01-31'
day = dt|dt = ts|dt < tn|ts = tn|ts > '2024-01-01'|ts IN ('2024-01-31 10:20:30')|x = s|b = 1|b = 'true'|b < c|a = array(1)
i = j < i|i == j|NOT b = c|b AND c|b OR c|b XOR c|n != 0 AND 10 / n > 1|n = 0 OR 10 % n > 1|i <=> NULL|NULL = NULL
CASE WHEN n > 0 THEN 'p' WHEN n < 0 THEN 'n' END|CASE n WHEN 1 THEN 1 WHEN 2 THEN 2.5 ELSE 0 END|if(b, i, l)|if(b, i, 1.5)
if(b, 1, 'a')|coalesce(i, l, 0)|coalesce(i, 1.5)|coalesce(d, m)|coalesce(dt, ts)|coalesce(s, 'x')|coalesce(i, 'x')|nvl(i, 0)
ifnull(s, '')|nvl2(i, s, 'none')|nullif(i, j)|nullif(d, e)|nullif(s, '')|decode(n, 1, 'a', 2, 'b', 'z')|decode(n, NULL, 1, 2)
greatest(i, j)|greatest(i, l, n)|least(i, j)|greatest(d, e)|least(d, e)|greatest(s, t2)|greatest(dt, du)|greatest(i, d)
isnull(i)|isnotnull(i)|isnan(d)|nanvl(d, e)|zeroifnull(i)|nullifzero(i)|equal_null(i, j)|-i|-d|-m|abs(i)|abs(d)|abs(m)
d % 0|5 / 0|5 div 0|5 % 0|7 div 2|-7 div 2|-7 % 3|7 % -3|1 / 3|1.0 / 3|1.5 * 2.25|2 * 3.0|n / 2|n div 2|n % 2|d / 2|m / 2
n * 1.5|m * 1.1|m + 1|m * 2|m / 3|dt + 1|dt - 1|dt - du|dt + n|ts - tu|ts + INTERVAL 3 HOURS|ts - INTERVAL 1 MONTH
dt + INTERVAL 1 DAY|dt + INTERVAL 1 MONTH|dt - INTERVAL 1 YEAR|dt + INTERVAL 3 HOURS|tn + INTERVAL 90 SECONDS|b + 1|n & 3
n | 4|n ^ 1|~n|n << 2|shiftleft(n, 2)|bit_count(i)|try_add(i, j)|try_subtract(l, k)|try_multiply(i, j)|try_divide(n, p)
sign(n)|sign(d)|sign(m)|ceil(d)|ceil(m)|ceil(n)|floor(d)|floor(m)|floor(w)|ceil(m, 1)|round(d)|round(d, 2)|round(m)|round(m, 1)
round(m, -1)|round(n, -1)|round(i, -2)|round(w, 3)|round(o, 2)|round(2.5)|round(-2.5)|round(3.5e0)|bround(d)|bround(m, 1)
bround(2.5)|mod(n, p)|mod(d, e)|pmod(n, p)|pmod(i, j)|pmod(d, e)|sqrt(d)|sqrt(p)|cbrt(d)|exp(n)|ln(d)|ln(p)|log(2, p)|log10(d)
log2(d)|power(n, 2)|pow(d, 2)|sin(d)|cos(n)|atan2(d, e)|degrees(d)|pi()|e()|rint(d)|factorial(p)|hex(n)|hex(l)|hex(s)|hex(x)
unhex(s)|conv(number, 10, 16)|bin(n)|width_bucket(d, 0, 10, 5)|format_number(d, 2)|rand(1) < 2|signum(d)|negative(n)|positive(n)
upper(s)|lower(s)|initcap(s)|length(s)|char_length(s)|length(x)|octet_length(s)|bit_length(s)|trim(s)|ltrim(s)|rtrim(s)
trim('a' FROM s)|ltrim('a', s)|btrim(s)|btrim(s, 'a')|reverse(s)|concat(s, t2)|concat(s, n)|concat(a, array(9))|concat(s, NULL)
s || t2|s || n|s || 'x'|concat_ws('-', s, t2)|concat_ws('-', s, n)|concat_ws(NULL, s, t2)|substring(s, 2)|substring(s, 2, 3)
substring(s, 0, 2)|substring(s, -2)|substring(s, -3, 2)|substring(s, n, 2)|substring(s, 1, n)|substr(s, 2, 1)
substring(s FROM 2 FOR 2)|substring(x, 1, 1)|left(s, 2)|left(s, n)|left(s, -1)|right(s, 2)|right(s, n)|lpad(s, 5, '*')
lpad(s, n, 'ab')|lpad(s, 3)|lpad(s, 5, '')|rpad(s, 5, '*')|rpad(s, 2, '')|repeat(t2, 3)|repeat(t2, n)|replace(s, 'a', 'xy')
replace(s, 'a')|replace(s, '', 'x')|replace(s, t2, '_')|translate(s, 'abc', 'xy')|translate(s, 'aa', 'xy')|startswith(s, t2)
startswith(s, 'a')|endswith(s, 'b')|endswith(s, t2)|contains(s, 'a')|contains(s, '')|contains(s, t2)|instr(s, t2)|instr(s, '')
locate('a', s)|locate(t2, s)|locate('a', s, 2)|locate('a', s, 0)|position('a' IN s)|position('a', s)|charindex('a', s)
substring_index(s, 'a', 1)|substring_index(s, 'a', -1)|substring_index(s, '', 1)|s LIKE 'a%'|s LIKE '%_b%'|s LIKE 'a\\\\_%'
s LIKE '%\\\\%%'|s LIKE t2|s ILIKE 'A%'|s NOT LIKE '%a%'|s LIKE 'a%' ESCAPE '/'|s LIKE '%b'|s LIKE 'a_b'|s RLIKE 'a'
s RLIKE '^[a-z]+$'|s RLIKE '\\\\d'|regexp_like(s, 'b$')|s RLIKE '\\\\w'|s RLIKE '^.$'|s REGEXP 'a+b'|regexp_replace(s, 'a', 'x')
regexp_replace(s, '(a)(b)', '$2$1')|regexp_replace(s, '[^a-z]', '')|regexp_extract(s, '([a-z]+)')|regexp_count(s, 'a')
regexp_extract(s, '([a-z]+)([0-9]*)', 2)|regexp_extract(s, 'a', 0)|split(s, 'a')|split(s, '')|split(s, ',')|split(s, 'a', 2)
split_part(s, 'a', 1)|split_part(s, 'a', -1)|md5(s)|sha1(s)|sha2(s, 256)|sha2(s, 0)|sha2(s, 512)|crc32(s)|hash(i)|hash(s, i)
hash(l)|hash(d)|hash(m)|hash(dt)|hash(b)|xxhash64(s)|xxhash64(i, d)|base64(x)|base64(s)|unbase64(base64(x))|encode(s, 'UTF-8')
ascii(s)|chr(p + 64)|soundex(s)|levenshtein(s, t2)|format_string('%s-%d', s, n)|space(p)|elt(p, 'a', 'b')|find_in_set(t2, 'a,b')
CAST(2.7 AS INT)|CAST(-2.5 AS INT)|CAST(d AS STRING)|CAST(f AS STRING)|CAST(w AS STRING)|CAST(a AS STRING)|CAST(st AS STRING)
CAST(x AS STRING)|CAST(s AS BINARY)|CAST(ts AS BIGINT)|CAST(l AS TIMESTAMP)|CAST(a AS ARRAY<BIGINT>)|CAST(s AS VARCHAR(3))
n::string|number::int|int(number)|double(number)|date(day)|bigint(d)|CAST(' 1 ' AS INT)|CAST('true' AS BOOLEAN)|CAST(NULL AS INT)
year(dt)|year(ts)|year(day)|quarter(dt)|month(dt)|day(dt)|dayofmonth(dt)|dayofyear(dt)|dayofweek(dt)|dayofweek(ts)|weekday(dt)
weekofyear(dt)|hour(ts)|hour(tn)|minute(ts)|second(ts)|month(ts)|day(ts)|EXTRACT(YEAR FROM dt)|EXTRACT(WEEK FROM dt)
EXTRACT(SECOND FROM ts)|EXTRACT(DOW FROM dt)|date_part('month', dt)|date_add(dt, 1)|date_add(dt, n)|date_add(day, 1)
date_add(ts, 1)|date_sub(dt, 1)|date_sub(dt, n)|dateadd(DAY, 1, dt)|add_months(dt, 1)|add_months(dt, n)|last_day(dt)|last_day(ts)
next_day(dt, 'MON')|make_date(2024, p, 31)|make_date(n + 2000, 1, 1)|datediff(dt, du)|datediff(ts, tu)|months_between(dt, du)
date_trunc('year', ts)|date_trunc('month', ts)|date_trunc('week', ts)|date_trunc('day', dt)|date_trunc('hour', ts)
date_trunc('quarter', tn)|date_trunc('minute', ts)|trunc(dt, 'MM')|trunc(dt, 'year')|trunc(dt, 'week')|trunc(dt, 'quarter')
trunc(ts, 'month')|date_format(ts, 'yyyy-MM-dd')|date_format(dt, 'yyyy')|date_format(ts, 'yyyy-MM-dd HH:mm:ss')
date_format(ts, 'dd/MM/yyyy')|date_format(ts, 'MMM')|to_date(day)|to_date(day, 'yyyy-MM-dd')|to_date(day, 'yyyyMMdd')
to_timestamp(day)|to_timestamp(day, 'yyyy-MM-dd HH:mm:ss')|try_to_timestamp(day)|try_to_date(day)|unix_timestamp(ts)
unix_timestamp(day)|from_unixtime(n)|timestamp_seconds(n)|timestamp_millis(n)|timestamp_micros(l)|unix_seconds(ts)
unix_millis(ts)|unix_micros(ts)|unix_date(dt)|date_from_unix_date(n)|from_utc_timestamp(ts, 'America/New_York')
to_utc_timestamp(ts, 'Asia/Tokyo')|current_date() > DATE '2020-01-01'|current_timestamp() > tu|now() IS NULL|typeof(n)
array(1, n)|array(n, 1.5)|array(s, t2)|size(a)|size(mp)|cardinality(a)|array_size(a)|a[0]|a[p]|a[-1]|get(a, p)|element_at(a, 1)
element_at(a, -1)|element_at(a, p)|mp['a']|element_at(mp, 'a')|map_keys(mp)|map_values(mp)|map('a', n)|map('a', 1, 'a', 2)
map('a', n, 'b', p)|map(s, 1)|st.x|st.y|struct(n, s)|struct(n AS q, s)|struct(1, NULL)|named_struct('x', n, 'y', s)
array_contains(a, 1)|array_contains(a, NULL)|array_contains(`as`, s)|array_position(a, 1)|array_distinct(a)|array_sort(a)
sort_array(a)|sort_array(a, false)|array_max(a)|array_min(a)|array_join(`as`, ',')|array_union(a, array(1, 9))
array_append(a, 1)|array_repeat(n, 2)|flatten(array(a, a))|slice(a, 1, 2)|sequence(1, p)|transform(a, q -> q + 1)
filter(a, q -> q > 1)|exists(a, q -> q > 1)|aggregate(a, 0, (u, v) -> u + v)|get_json_object(js, '$.a')|get_json_object(js, '$.b[0]')
get_json_object(js, '$.c.d')|from_json(js, 'a int')|from_json(js, 'a int').a|from_json(js, 'a string').a|to_json(st)|js:a
concat(s, )|s IN ('a', )|size(as)|concat_ws(',', as)
forall(a, q -> q > 0)|reduce(a, 0, (u, v) -> u + coalesce(v, 1))|transform(a, (q, r) -> q + r)|filter(a, (q, r) -> r > 0)
transform(`as`, q -> concat(q, s))|transform(a, q -> q * n)|exists(`as`, q -> q IS NULL)|aggregate(a, 0, (u, v) -> u + v * n)
transform(array(st), q -> q.x)|filter(a, q -> exists(a, r -> r > q))|array_prepend(a, 1)|array_intersect(a, array(1, 2, NULL))
array_except(a, array(1, NULL))|array_union(a, a)|sequence(p, 1)|sequence(1, 9, p)|sequence(n, p)|sequence(1L, 3L)|get(a, n)
exp(d)|exp(m)|ln(m)|log(d)|log(d, e)|log(2, n)|log2(p)|log10(p)|log1p(d)|expm1(d)|power(d, e)|power(n, p)|power(d, 0.5)|power(2, n)
power(m, 2)|pow(d, -1)|power(p, 0.1)|power(l, 3)|exp(f)|ln(f)|log(i)|tan(d)|asin(d)|acos(d)|atan(d)|sinh(d)|cosh(n)|tanh(d)|radians(d)|cot(d)
degrees(f)|radians(n)|hypot(d, e)|pi() * p|round(e(), 3)|sqrt(m)|sqrt(n)|square(n)|concat(d, s)|d || 'x'|string(f)|CAST(d * 2 AS STRING)
CAST(f AS STRING) = '1.5'|CASE WHEN d > 0 THEN string(d) ELSE s END|length(CAST(d AS STRING))|concat_ws('-', d, n)|rint(f)|signum(m)
dt - INTERVAL 1 DAY|dt + INTERVAL 2 WEEKS|ts + INTERVAL 5 MINUTES|ts - INTERVAL 30 HOURS|last_day(dt) + 1|dt + 1 + n|dt - 1 - 1|.5 + 1
ceiling(d)|regexp(s, 'a')|rpad(s, 3)|substr(s, 2)|CAST(st.x AS BIGINT)|CAST(n + 1 AS BIGINT)|upper(CAST(n AS STRING))|-3L|n + 5L|-d + 1.50
concat(CAST(dt AS STRING), 'x')|n IS NOT NULL AND b|NOT (s LIKE 'a%')|s NOT RLIKE 'a'|n NOT BETWEEN 1 AND 2|pow(2, 0.5)|char_length(s)|1e0 + 1e-7
array_append(a, NULL)|array_append(`as`, s)|array_repeat(s, n)|flatten(array(a, NULL))|size(array())|coalesce(a, array())
m + '1.5'|'2' * d|n - 'x'|'7' % p|-0.0|-0|-0L|-0.0D|-0e0|0012|-0012|INTERVAL 1 DAY + dt|INTERVAL 3 HOURS + ts|INTERVAL 1 MONTH + dt|CASE WHEN NULL THEN 1 ELSE 2 END
CASE WHEN CAST(NULL AS BOOLEAN) THEN 1 ELSE 2 END|if(NULL, 1, 2)|CASE NULL WHEN 1 THEN 2 ELSE 3 END|EXTRACT(UPPER FROM s)|EXTRACT(dayofyear FROM dt)
EXTRACT('year' FROM dt)|EXTRACT(yearofweek FROM dt)|extract(doy FROM ts)|EXTRACT(DOW_ISO FROM dt)|EXTRACT(qtr FROM tn)|EXTRACT(mins FROM ts)
date_part('week', dt)|date_part('SECONDS', ts)|ts + INTERVAL '1 02:03:04' DAY TO SECOND|ts + INTERVAL 1 DAY 2 HOURS|1e20
unix_timestamp() > 0|unix_timestamp(dt)|unix_timestamp(tn)|unix_timestamp(day, 'yyyy-MM-dd')|to_unix_timestamp(ts)|months_between(ts, tu)|months_between(ts, dt, false)
months_between(tn, ts)|next_day(ts, 'sunday')|next_day(dt, 'TH')|dateadd(day, 1, ts)|dateadd(MONTH, -1, ts)|dateadd(HOUR, 30, tn)|date_add(WEEK, 2, dt)
timestampadd(QUARTER, 1, ts)|dateadd(DAYOFYEAR, 1, ts)|dateadd(DAY, n, ts)|dateadd(MONTH, p, tn)|dateadd(HOUR, n, dt)|dateadd(QUARTER, n, ts)|dateadd(DAY, l, ts)|datediff(DAY, ts, tu)|datediff(MONTH, ts, tu)|date_diff(YEAR, dt, du)|timestampdiff(hour, ts, tu)
datediff(QUARTER, ts, tu)|datediff(WEEK, dt, du)|datediff(MICROSECOND, ts, tu)|datediff(MINUTE, tn, ts)|datediff(day, du)|hour(dt)|hour(day)|last_day(day)
date_format(day, 'yyyy')|date_trunc('month', day)|unix_seconds(dt)|date_format(ts, 'EEEE d MMMM y')|date_format(ts, 'E, dd MMM yyyy h:mm a')
date_format(ts, 'yy Q QQQ hh H m s')|date_format(ts, 'SSS SSSSSS')|date_format(tn, 'M/d/yy EEE')|dt + INTERVAL 24 HOURS|dt - INTERVAL 90 MINUTES
CAST(d AS DECIMAL(20, 4))|CAST(f AS DECIMAL(38, 18))|TRY_CAST(f AS DECIMAL(3, 1))|CAST(h AS TIMESTAMP)|CAST(ts AS FLOAT)|CAST(ts AS SMALLINT)
CAST(b AS FLOAT)|CAST(b AS DECIMAL(1, 1))|CAST(b AS TIMESTAMP)|CAST(tn AS BIGINT)|CAST(o AS STRING)|CAST(mp AS STRING)|CAST(`as` AS STRING)
CAST(array(dt) AS STRING)|CAST(array(d) AS STRING)|CAST(map('a', st) AS STRING)|string(a)|CAST(array(NULL) AS STRING)|CAST(array(array(n)) AS STRING)
try_add(l, k)|try_multiply(l, k)|try_add(d, e)|try_subtract(m, o)|try_multiply(w, w)|try_add(y, y)|try_mod(n, p)|try_mod(n, n)|try_add(dt, 1)
floor(m, 1)|floor(m, -1)|ceil(o, 3)|ceil(w, 2)|ceiling(m, 1)|ceil(d, 1)|factorial(n)|bin(l)|w div 7|m div 0.0|2.5 div 1|m div n
trim(LEADING 'ab' FROM s)|trim(TRAILING FROM s)|trim(BOTH t2 FROM s)|rtrim('b', s)|trim('', s)|btrim(s, t2)|length('abc')|bit_length(x)|char_length(x)
substr(s FROM 2)|substring(s, -2, n)|substring(s, n)|substring(x, n)|substring(x, -2, 1)|s NOT LIKE t2|s LIKE NULL|s LIKE 'a/_%' ESCAPE '/'
s NOT LIKE 'a/%' ESCAPE '/'|s ILIKE 'A/%' ESCAPE '/'|s LIKE concat(t2, '%')|s LIKE 'a/b' ESCAPE '/'|regexp_count(s, '[a-z]+')
regexp_extract(s, '([a-z]+)([0-9]*)', 1)|regexp_extract(s, '((a)(b)?)', 3)|regexp_extract(s, '(a)(b)', 3)|split(s, '', -1)|split(s, ',', -1)
split(t2, 'a', 1)|concat(a, NULL)|concat(a, a, array(1L))|concat(`as`, array(s))|concat_ws(',', `as`, s)|concat_ws('-', array('a', NULL), 'b')
concat_ws(',', a)|encode(s, 'utf-8')|chr(n)|chr(i)|elt(n, 'a', s)|elt(1, s, t2)|unbase64('YWI=')|'a' 'b' 'c'|'it''s' "x"|concat(a, s)
try_add(1, p)|n << p|l << 1|bit_count(l)|~l|endswith(s, s)|replace(s, s, t2)|left(s, p)|right(t2, p)|initcap(t2)|typeof(mp)|typeof(m)
number > 1|number <=> 12|number IN (1, 12, NULL)|number = 1.5|number < d|number BETWEEN 1 AND 9|number + 1|number * 1.5|number / 2|number % 3|i + number|day > DATE '2024-01-01'|ts = day
b <=> 'true'|if(b, number, 1)|coalesce(number, i)|coalesce(d, number)|CASE WHEN b THEN n ELSE number END|nullif(number, 12)|greatest(number, t2)|x < s|x = 'abc'|tn = day|decode(number, 12, 'a', 'b')
DATE '2024-1-5'|DATE '2024-01-05T10:00Z'|TIMESTAMP '2024-1-5 7:8'|TIMESTAMP '2024-01-05 10:00:00 Europe/Berlin'|TIMESTAMP_NTZ '2024-01-05 10:00:00Z'|CAST('2024-01-05T10:00:00+2:00' AS TIMESTAMP)|TRY_CAST('2024-01-05T10:00Z' AS TIMESTAMP)
TRY_CAST('2024-01-05 10' AS TIMESTAMP)|TRY_CAST('2024-01-05 10:00:00.' AS TIMESTAMP)|TRY_CAST('2024-01-05 10:00:00.1234567' AS TIMESTAMP)|TRY_CAST('2024-01-05T' AS TIMESTAMP)|TRY_CAST('2024-01-05 10:00:00 GMT+2' AS TIMESTAMP)|TRY_CAST('2024-13-05' AS DATE)|TRY_CAST('2024-01-05x' AS DATE)
TRY_CAST('2024-01-05 10:00:00 PST' AS TIMESTAMP)|TRY_CAST('2024-01-05 10:00:00 +0200' AS TIMESTAMP)|TRY_CAST('2024-01-05 24:00:00' AS TIMESTAMP)|TRY_CAST('2024-01-05 10:00:00Zx' AS DATE)|to_date('2024-01-05T02:30:00Z')|to_timestamp_ntz(day)|to_timestamp_ntz('2024-01-05 10:00:00', 'yyyy-MM-dd HH:mm:ss')
format_string('%s;%5s;%-5s;', s, t2, n)|format_string('%d and %05d, %,d', n, i, l)|format_string('%x %X', i, l)|format_string('%.2f', d)|printf('%8.3f %%', d)|format_string('%s', d)|format_string('%s', dt)|format_string('%s', m)|format_string('%.1f', m)|format_string('%+d', n)|format_string('%.2s', s)|format_string('%s', b)|format_string('%f', f)|format_string('%s')
format_string('%n')|format_string('none', s)|format_string('%08.2f', d)|format_number(n, 0)|format_number(m, 1)|format_number(f, 3)|format_number(l, 2)|format_number(d, 0)|format_number(d, -1)|url_encode(s)|url_decode('a%20b+c')|url_decode(s)|monthname(dt)|dayname(dt)|monthname(ts)|dayname(tn)|char(65)|regexp_substr(s, 'a+')|regexp_substr(s, '[0-9]')
to_json(a)|to_json(mp)|to_json(struct(n, d, m, dt, b, s))|to_json(struct(f, o, w))|to_json(array(st))|to_json(map('k', dt))|to_json(named_struct('x', NULL, 'y', array(NULL, 1)))|array_remove(a, 1)|array_remove(a, NULL)|array_compact(a)|array_insert(a, 1, 9)|array_insert(a, -1, 9)|array_insert(a, p, n)|array_insert(a, -5, 9)|arrays_overlap(a, array(1, NULL))
arrays_overlap(a, a)|arrays_overlap(a, array(9))|arrays_zip(a, `as`)|arrays_zip(a, array(1))|try_element_at(a, p)|try_element_at(a, -1)|try_element_at(mp, 'a')|map_entries(mp)|map_concat(mp, map('z', 9))|map_concat(mp, mp)|map_from_arrays(array('a', 'b'), array(n, p))|map_from_entries(array(struct('a', n)))|map_contains_key(mp, 'a')|map_from_entries(map_entries(mp))
shiftright(n, 1)|n >> 2|l >> p|shiftrightunsigned(n, 1)|shiftrightunsigned(l, 3)|n >> 1 << 1|zip_with(a, array(1, 2), (q, r) -> q + r)|zip_with(a, `as`, (q, r) -> concat(r, s))|map_filter(mp, (k2, v2) -> v2 > 1)|transform_values(mp, (k2, v2) -> v2 * n)|transform_keys(mp, (k2, v2) -> upper(k2))|transform_values(mp, (k2, v2) -> k2)
sequence(DATE '2024-01-30', DATE '2024-02-02')|sequence(DATE '2024-01-31', DATE '2024-05-01', INTERVAL 1 MONTH)|sequence(DATE '2024-03-01', DATE '2024-01-01', INTERVAL -1 WEEK)|make_timestamp(2024, p, 31, 10, 20, 30.5)|make_timestamp(2024, 1, 31, 10, 20, 60)|make_timestamp(2024, 1, 31, 10, n, 0)|make_timestamp(n, 1, 1, 0, 0, 1)
split(s, '[ab]')|split(s, '[ab]+', 2)|split(s, '[^a-z]')|split(s, '\\\\s')|s LIKE ANY ('a%', '%b')|s LIKE ALL ('a%', '%b')|s NOT LIKE ANY ('a%', '%b')|s NOT LIKE ALL ('a%', '%b')|s ILIKE ANY ('A%', '%B')|concat_ws('-', a, s)|array_join(a, ',')|array_join(`as`, ',', 'none')|array_join(array(d, e), '/')|CAST(a AS ARRAY<STRING>)|CAST(st AS STRUCT<x: BIGINT, y: STRING>)
CAST(mp AS MAP<STRING, BIGINT>)|CAST(array(number) AS ARRAY<INT>)|CAST(array(ts) AS ARRAY<DATE>)|CAST(st AS STRUCT<y: BIGINT, x: STRING>)|TRY_CAST(array(number) AS ARRAY<INT>)|CAST(struct(n, s) AS STRUCT<N: INT, s: STRING>)|cosh(d)|atanh(d)|log1p(n)|expm1(n)|atan2(n, p)|hypot(n, p)|sinh(n)|atan(n)|asin(d / 10)|acos(n / 10)|sin(n)|tan(n)|sin(1e6 * d)|cos(l)|degrees(atan2(d, 2))
(dt - du) + 1|(ts - tu) / INTERVAL '1' HOUR|(ts - tu) IS NULL|CAST(CAST(ts - tu AS INTERVAL DAY) AS INT)|CAST(CAST(ts - tu AS INTERVAL HOUR) AS BIGINT)
CAST(dt - du AS INT)|CAST(ts - tu AS BIGINT)|CAST(ts - tu AS DOUBLE)|CAST(ts - tu AS INT)|EXTRACT(DAY FROM INTERVAL '30' HOUR)
EXTRACT(DAY FROM INTERVAL '5' DAY)|EXTRACT(DAY FROM ts - tu)|EXTRACT(DAYS FROM (dt - du))|EXTRACT(EPOCH FROM ts - tu)
EXTRACT(HOUR FROM INTERVAL '30' HOUR)|EXTRACT(HOUR FROM ts - tu)|EXTRACT(MINUTE FROM ts - tu)|EXTRACT(MONTH FROM INTERVAL '14' MONTH)
EXTRACT(SECOND FROM ts - tu)|EXTRACT(YEAR FROM INTERVAL '14' MONTH)|EXTRACT(YEAR FROM ts - tu)|INTERVAL 'x' DAY|current_date - INTERVAL 7 DAYS < dt
date_add(dt, INTERVAL 1 DAY)|date_add(ts, INTERVAL 1 DAY)|date_part('DAY', ts - tu)|date_part('second', ts - tu)|date_sub(dt, INTERVAL '1' DAY)
day(ts - tu)|dt + (dt - du)|dt + CAST(n AS INTERVAL DAY)|dt + INTERVAL '1' DAY * n|dt + INTERVAL '1' MONTH * n|dt + INTERVAL '1-2' YEAR TO MONTH
dt + INTERVAL '3 days'|dt + INTERVAL '3' DAY|dt + INTERVAL 2 HOURS|dt + make_dt_interval(0, n)|dt + make_dt_interval(n)|dt + make_ym_interval(0, n)
dt - INTERVAL '1' MONTH * n|dt - du = INTERVAL '1' DAY|dt - du > 5|dt - du > INTERVAL 5 DAYS|hour(ts - tu)|tn + make_dt_interval(n)|ts + (dt - du)
ts + (ts - tu)|ts + CAST(n AS INTERVAL HOUR)|ts + INTERVAL '-1' DAY|ts + INTERVAL '1 02:03:04.5' DAY TO SECOND|ts + INTERVAL '1' DAY * n
ts + INTERVAL '1' HOUR * n|ts + INTERVAL '1-2' YEAR TO MONTH|ts + INTERVAL '2 months 3 days'|ts + INTERVAL -1 DAY|ts + INTERVAL 1 MONTH 3 DAYS
ts + make_dt_interval(0, n, 0, 1.001001)|ts + make_dt_interval(n)|ts + n * INTERVAL '1' HOUR|ts - INTERVAL '1' WEEK|ts - INTERVAL '90' MINUTE * p
ts - make_ym_interval(p, n)|ts - tu < INTERVAL '1' MONTH|ts - tu = INTERVAL '0' SECOND|ts - tu > INTERVAL '1' DAY|ts - tu > INTERVAL 1 DAY
ts - tu >= INTERVAL 24 HOURS|ts - tu BETWEEN INTERVAL '0' DAY AND INTERVAL '30' DAY
"""
GROUP = """
count(*)|count(1)|count(i)|count(DISTINCT i)|count(DISTINCT i, t2)|count(DISTINCT d)|count(i, s)|sum(n)|sum(i)|sum(l)|sum(d)|sum(f)
sum(m)|sum(w)|sum(DISTINCT n)|sum(y)|avg(n)|avg(i)|avg(l)|avg(p + 0.5e0)|avg(m)|avg(o)|avg(w)|avg(m * 2)|mean(n)|min(i)|min(d)|min(s)|min(dt)
min(ts)|max(i)|max(d)|max(s)|max(b)|max(dt)|max(tn)|max(m)|max(x)|max(st)|first(id)|last(id)|first_value(id)|any_value(g)|min_by(s, id)
max_by(s, id)|first(n, true)|stddev(n)|stddev_samp(n)|stddev_pop(n)|std(n)|variance(n)|var_samp(p)|var_pop(n)|skewness(n)|kurtosis(n)
corr(n, p)|covar_pop(n, p)|covar_samp(n, p)|median(n)|median(m)|median(d)|percentile(n, 0.5)|percentile(n, 0.25)|mode(g)
percentile_approx(n, 0.5)|percentile_cont(0.5) WITHIN GROUP (ORDER BY n)|approx_count_distinct(i)|collect_list(n)|collect_set(g)
size(collect_set(d))|array_agg(n)|listagg(t2, ',') WITHIN GROUP (ORDER BY t2)|string_agg(t2, ',') WITHIN GROUP (ORDER BY t2)
bool_and(b)|bool_or(b)|every(b)|some(b)|any(b)|count_if(n > 0)|sum(n) FILTER (WHERE p > 1)|count(*) FILTER (WHERE b)|bit_and(n)
bit_or(n)|bit_xor(n)|try_sum(l)|sum(n) / count(*)|sum(m) / count(*)|sum(n) + 1|max(n) - min(n)|max(NULL)|sum('1')|sum(number)
sum(ts - tu)|avg(b)|sum(b)|product(n)|sum(CASE WHEN b THEN 1 ELSE 0 END)|max(upper(t2))|sum(if(b, m, 0))|coalesce(sum(n), 0)
round(avg(n), 2)|round(sum(m), 1)|concat(min(t2), max(t2))|count(DISTINCT upper(t2))|min(array(n))|sum(n * p)|sum(n) % 3|sum(n div p)
mean(p)|first(n IGNORE NULLS)|first_value(n, true)|std(p)|sum(DISTINCT p) + 1|sum(n) FILTER (WHERE p > 1 AND b)
grouping(g)|count(if(n > 0, 1, NULL))|max(length(s))|min(year(dt))|sum(hash(s))|nullif(count(n), 0)|hash(min(s))|upper(max(t2))
percentile_cont(0.25) WITHIN GROUP (ORDER BY n DESC)|percentile_cont(0.5) WITHIN GROUP (ORDER BY m)|percentile_cont(0.9) WITHIN GROUP (ORDER BY l)
percentile(d, 0.5)|percentile(d, 0.3)|percentile(n, array(0.25, 0.5, 1))|percentile(d, array(0.1, 0.9))|percentile(n, 0.5, p)|percentile(n, array(0.5), p)
percentile(n, 1)|percentile(w, 0.5)|percentile(n, 1.5)|percentile(n, 0.25 + 0.25)|percentile(DISTINCT n, 0.5)|median(f)|median(y)|percentile(number, 0.5)
percentile_cont(0.5) WITHIN GROUP (ORDER BY d)|percentile_cont(0.25) WITHIN GROUP (ORDER BY d DESC)|percentile_cont(array(0.25, 0.75)) WITHIN GROUP (ORDER BY n)
percentile_disc(0.5) WITHIN GROUP (ORDER BY n)|percentile_disc(0.25) WITHIN GROUP (ORDER BY d)|percentile_disc(0.25) WITHIN GROUP (ORDER BY d DESC)
percentile_disc(0.9) WITHIN GROUP (ORDER BY m)|percentile_disc(array(0.2, 0.9)) WITHIN GROUP (ORDER BY n)|skewness(p)|skewness(d)|skewness(m)|kurtosis(p)|kurtosis(d)|kurtosis(m)
corr(d, p)|covar_pop(d, p)|stddev(d)|regr_count(n, p)|regr_avgx(n, p)|regr_avgy(n, p)|regr_sxx(n, p)|regr_syy(n, p)|regr_sxy(n, p)|regr_slope(n, p)|regr_intercept(n, p)
regr_r2(n, p)|regr_slope(n, 1)|regr_r2(1, p)|regr_r2(p, 1)|mode() WITHIN GROUP (ORDER BY n)|mode(n, true)|any_value(n) IGNORE NULLS|min(st)
max(struct(id, s)).s|max(named_struct('a', n, 'b', s)).b|listagg(n, ',') WITHIN GROUP (ORDER BY n)
try_sum(n)|try_sum(m)|try_sum(d)|try_sum(w)|try_avg(n)|try_avg(l)|try_avg(m)|try_avg(d)|try_sum(number)
"""
_OVER = "OVER (PARTITION BY g ORDER BY id)"
_WINDOWED = """
row_number()|rank()|dense_rank()|percent_rank()|cume_dist()|ntile(3)|lag(n)|lag(n, 2)|lag(n, 1, 0)|lead(n)|lead(s)|lead(n, 1, -1)
first_value(n)|last_value(n)|nth_value(n, 2)|sum(n)|sum(m)|avg(n)|avg(m)|count(*)|count(n)|min(d)|max(d)|min(s)|stddev_pop(p)|first(n)
last(n, true)|any_value(n)|mean(n)|collect_list(n)|count_if(b)|bool_or(b)|lag(upper(t2))|sum(length(s))|max_by(s, n)|lag(m, 1, 0)
"""
WINDOW = """
count(*) OVER (ORDER BY dt RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW)
sum(p) OVER (PARTITION BY g ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)|sum(p) OVER (ORDER BY n DESC RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)
count(*) OVER (ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND 5 FOLLOWING)|count(*) OVER (ORDER BY i RANGE 2 PRECEDING)
max(n) OVER (PARTITION BY g ORDER BY p RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING)|count(*) OVER (ORDER BY y RANGE BETWEEN 200 PRECEDING AND CURRENT ROW)
avg(m) OVER (PARTITION BY g ORDER BY id RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING)|count(*) OVER (ORDER BY n * 10L RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING)
count(*) OVER (ORDER BY y RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)|count(*) OVER (ORDER BY m RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)
min(n) OVER (PARTITION BY g ORDER BY n NULLS LAST RANGE BETWEEN CURRENT ROW AND 2 FOLLOWING)|count(*) OVER (ORDER BY g, n RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)
rank() OVER (PARTITION BY g ORDER BY n)|dense_rank() OVER (PARTITION BY g ORDER BY n DESC)|rank() OVER (PARTITION BY g ORDER BY d)
rank() OVER (PARTITION BY g ORDER BY s)|rank() OVER (PARTITION BY g ORDER BY n NULLS LAST)|sum(p) OVER (PARTITION BY g ORDER BY n)
sum(p) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)|sum(p) OVER (PARTITION BY g)
sum(p) OVER (PARTITION BY g ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)|row_number() OVER (ORDER BY g, id) % 2
last_value(n) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)|rank() OVER (PARTITION BY g)
first_value(n) IGNORE NULLS OVER (PARTITION BY g ORDER BY id)|lag(n) IGNORE NULLS OVER (PARTITION BY g ORDER BY id)
n - lag(n) OVER (PARTITION BY g ORDER BY id)|upper(lag(t2) OVER (ORDER BY id))|sum(sum(n)) OVER (ORDER BY g)|count(*) OVER ()
sum(p) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)|count(*) OVER (PARTITION BY upper(t2))
sum(p) OVER (PARTITION BY g ORDER BY id ROWS 1 PRECEDING)|sum(p) OVER (PARTITION BY g ORDER BY id DESC, n NULLS LAST)|mean(p) OVER (ORDER BY g)
sum(p) FILTER (WHERE n > 0) OVER (PARTITION BY g ORDER BY id)|count(DISTINCT n) OVER (PARTITION BY g)|sum(d) OVER (ORDER BY id)
"""
QUERY = """
SELECT id, inline(array(st)) FROM t WHERE id < 7 ORDER BY id|SELECT id, inline_outer(array(st, NULL)) FROM t WHERE id < 5 ORDER BY id, x|SELECT id, u, v FROM t LATERAL VIEW inline(array(st)) q AS u, v WHERE id < 6 ORDER BY id
SELECT stack(2, 1, 'a', 2, 'b') AS (k, v)|SELECT id, stack(2, 'n', n, 'p', p) AS (k, v) FROM t WHERE id < 5 ORDER BY id, k|SELECT stack(3, 1, 'a', 2, 'b')|SELECT stack(2, 1, 2, 3)|SELECT stack(2, 1, 'x')
SELECT id, q.k, q.v FROM t LATERAL VIEW stack(2, 'n', n, 'p', p) q AS k, v WHERE id < 5 ORDER BY id, k|SELECT * FROM explode(array(1, 2)) AS e(x)|SELECT t.id, e.x FROM t, LATERAL explode(a) AS e(x) WHERE id < 9 ORDER BY 1, 2
SELECT t.id, e.x FROM t LEFT JOIN LATERAL explode(a) AS e(x) WHERE id < 9 ORDER BY 1, 2|SELECT explode(a) AS v, count(*) FROM t GROUP BY v ORDER BY 1|SELECT * FROM posexplode(array('a', 'b'))|SELECT id, posexplode_outer(a) AS (p1, v) FROM t WHERE id < 9 ORDER BY id, p1
SELECT g, p FROM t WHERE id < 12 ORDER BY ALL|SELECT g, p FROM t WHERE id < 12 ORDER BY ALL DESC NULLS LAST|SELECT g, coalesce(CAST(p AS STRING), 'total') AS p, count(*) AS c FROM t GROUP BY ROLLUP(g, p) ORDER BY g, p, c
SELECT upper(t2) AS t2, count(*) AS c FROM t GROUP BY t2 ORDER BY t2, c|SELECT -p AS p, count(*) AS c FROM t GROUP BY p ORDER BY p|SELECT g, p, grouping_id() AS q, count(*) FROM t GROUP BY CUBE(g, p) ORDER BY g, p, q
SELECT g, grouping_id(g), grouping(g) FROM t GROUP BY ROLLUP(g) ORDER BY g|SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW) AS c FROM t ORDER BY id
SELECT id FROM t WHERE id < 20 ORDER BY n, id|SELECT id FROM t WHERE id < 20 ORDER BY n DESC, id|SELECT id FROM t ORDER BY d, id
SELECT id FROM t ORDER BY s, id|SELECT id FROM t ORDER BY n NULLS LAST, id|SELECT id FROM t ORDER BY b, id|SELECT id FROM t ORDER BY m DESC, id
SELECT d, count(*) AS c FROM t WHERE d = 0 OR isnan(d) GROUP BY d ORDER BY c, d|SELECT DISTINCT d FROM t WHERE d = 0
SELECT count(DISTINCT d) AS c FROM t|SELECT count(*) AS c FROM t x JOIN t y ON x.d = y.d|SELECT count(*) AS c FROM t x JOIN t y ON x.d <=> y.d
SELECT count(*) AS c FROM t x JOIN t y ON x.n = y.p AND upper(x.t2) = 'A'|SELECT count(*) AS c FROM t x LEFT ANTI JOIN t y ON x.n = y.p
SELECT count(*) AS c FROM t x LEFT SEMI JOIN t y ON x.n = y.p|SELECT x.id, y.id FROM t x LEFT JOIN t y ON x.id = y.n ORDER BY 1, 2
SELECT x.id, y.n FROM t x RIGHT JOIN t y ON x.id = y.n ORDER BY y.id, x.id|SELECT count(*) FROM t x FULL JOIN t y ON x.id = y.n + 2
SELECT count(*) AS c FROM t x CROSS JOIN t y|SELECT count(*) AS c FROM t x, t y WHERE x.id = y.id AND x.n > y.p - 3
SELECT i AS v FROM t WHERE id = 3 UNION ALL SELECT 1.5|SELECT 1 AS v UNION SELECT 1.0|SELECT 1 AS v UNION ALL SELECT 'a'
SELECT n FROM t INTERSECT SELECT p FROM t ORDER BY n|SELECT n FROM t EXCEPT SELECT p FROM t ORDER BY n|SELECT n FROM t MINUS SELECT p FROM t ORDER BY n
SELECT n FROM t EXCEPT ALL SELECT p FROM t ORDER BY n|(SELECT 1 AS q) UNION ALL (SELECT 2) ORDER BY q DESC LIMIT 1
SELECT id, q FROM t LATERAL VIEW explode(a) e AS q ORDER BY id, q|SELECT id, explode(a) AS q FROM t ORDER BY id, q
SELECT id, posexplode(a) AS (r, q) FROM t ORDER BY id, r|SELECT id, q FROM t LATERAL VIEW OUTER explode(a) e AS q ORDER BY id, q
SELECT k, v FROM (SELECT mp FROM t) LATERAL VIEW explode(mp) e AS k, v ORDER BY k, v|SELECT id, r, q FROM t LATERAL VIEW posexplode(a) e AS r, q ORDER BY 1, 2
SELECT id, explode_outer(a) FROM t ORDER BY id, col|SELECT explode(array(1, 2, NULL)) AS q|SELECT id, q FROM t LATERAL VIEW explode(split(s, 'a')) e AS q ORDER BY id, q
SELECT explode(mp) FROM t ORDER BY key, value|SELECT stack(2, 1, 'a', 2, 'b')|SELECT explode(sequence(1, 3)) AS q|SELECT e.q FROM t LATERAL VIEW explode(a) e AS q WHERE id > 9 ORDER BY q
SELECT n + 1 AS q, q * 2 AS r FROM t WHERE id < 5 ORDER BY id|SELECT g, sum(n) FROM t GROUP BY 1 ORDER BY 1|SELECT g AS u, sum(n) AS c FROM t GROUP BY u ORDER BY u
SELECT g % 2 AS u, t2, count(*) AS c FROM t GROUP BY ROLLUP(u, t2) ORDER BY u, t2, c|SELECT g, count(*) AS c FROM t GROUP BY CUBE(g) ORDER BY g
SELECT g, p, grouping(g) AS u, count(*) AS c FROM t GROUP BY GROUPING SETS ((g), (p)) ORDER BY g, p, c|SELECT g, sum(n) AS c FROM t GROUP BY ALL ORDER BY g
SELECT g, p, count(*) FROM t GROUP BY g, p WITH ROLLUP ORDER BY 1, 2, 3|SELECT G FROM T WHERE ID = 1|SELECT * EXCEPT (a, `as`, mp, st) FROM t WHERE id = 1
SELECT upper(t2), count(*) FROM t GROUP BY upper(t2) ORDER BY 1|SELECT upper(t2) || 'x' AS u FROM t GROUP BY upper(t2) ORDER BY u
SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id) = 1 ORDER BY id|SELECT g FROM t GROUP BY g HAVING count(n) > 4 ORDER BY g
SELECT max(n) AS q FROM t WHERE n > (SELECT avg(p) FROM t) - 2|SELECT count(*) AS c FROM t WHERE n NOT IN (SELECT n FROM t)|SELECT count(*) AS c FROM t WHERE n IN (SELECT p FROM t)
SELECT count(*) AS c FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.n = t.p)|SELECT count(*) AS c FROM t WHERE NOT EXISTS (SELECT 1 FROM t u WHERE u.n = t.p AND u.id > 5)
SELECT id, (SELECT max(u.n) FROM t u WHERE u.g = t.g) AS q FROM t ORDER BY id|WITH c AS (SELECT 1 AS q) SELECT q FROM c|WITH c(u, v) AS (SELECT n, p FROM t) SELECT sum(u + v) FROM c
WITH c AS (SELECT g, sum(n) AS q FROM t GROUP BY g), e AS (SELECT max(q) AS q FROM c) SELECT c.g FROM c JOIN e ON c.q = e.q ORDER BY 1
VALUES (1, 'a'), (2, 'b')|SELECT * FROM VALUES (1, 'a'), (2, NULL) AS v(x, y)|SELECT * FROM VALUES (1), (2.5)|SELECT * FROM range(3)|SELECT x.* FROM (SELECT id, n FROM t WHERE id < 3) x ORDER BY id
SELECT id FROM t ORDER BY id LIMIT 3 OFFSET 2|SELECT id FROM t DISTRIBUTE BY g SORT BY id LIMIT 0|SELECT count(*) AS c FROM t TABLESAMPLE (100 PERCENT)
SELECT * FROM (SELECT g, p FROM t WHERE p IS NOT NULL) PIVOT (count(*) FOR p IN (1, 2)) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) AS u FOR p IN (1 AS one, 2)) ORDER BY g
SELECT sum(n) FROM t WHERE false|SELECT count(n) FROM t WHERE false|SELECT collect_list(n) FROM t WHERE false|SELECT avg(m), sum(m), count_if(b) FROM t WHERE false|SELECT max(n) FROM t HAVING count(*) > 1000
SELECT t2, count(*) AS c FROM t GROUP BY t2 ORDER BY t2|SELECT id FROM t WHERE s = 'a' OR s = 'A' ORDER BY id|SELECT id FROM t WHERE i > '5' ORDER BY id
SELECT x.id FROM t x NATURAL JOIN (SELECT 1 AS id) y|SELECT id FROM t JOIN (SELECT 1 AS id) y USING (id)|SELECT * FROM (SELECT 1 AS q, 2 AS r) x JOIN (SELECT 1 AS q, 3 AS s) y USING (q)|SELECT i / n > 1 AS q FROM t WHERE n = 0
SELECT * FROM (SELECT 1 AS q, 2 AS r) x FULL JOIN (SELECT 5 AS q, 3 AS s) y USING (q) ORDER BY q|SELECT DISTINCT g, n % 2 AS q FROM t ORDER BY g, q|SELECT DISTINCT g FROM t ORDER BY g DESC LIMIT 2
SELECT count(*) FROM t WHERE n <> 0 AND 10 div n > 2|SELECT sum(q) FROM (SELECT 10 div n AS q FROM t WHERE n <> 0) WHERE q > 1|SELECT n FROM t WHERE id < 4 ORDER BY n + p, id|SELECT a AS b, b AS a FROM (SELECT 1 AS a, 2 AS b) ORDER BY a
SELECT g, rank() OVER (ORDER BY sum(n) DESC, g) AS r FROM t GROUP BY g ORDER BY r|SELECT sum(n) OVER w AS q FROM t WINDOW w AS (PARTITION BY g) ORDER BY id|SELECT id FROM t WHERE (g, n) IN (SELECT g, p FROM t) ORDER BY id
SELECT n, n FROM t WHERE id = 1|SELECT g, sum(n) AS n FROM t GROUP BY g HAVING sum(n) > 0 ORDER BY n, g|SELECT id FROM t ORDER BY sum(n) OVER (PARTITION BY g), id|SELECT count(*) FROM (SELECT id FROM t LIMIT 7)|SELECT 1 AS q WHERE 1 = 0
FROM t SELECT id WHERE id < 3 ORDER BY id|SELECT st.x, st.* FROM t WHERE id = 1|SELECT t.id AS q FROM t t ORDER BY q LIMIT 1|SELECT id FROM t WHERE id IN (SELECT max(id) FROM t GROUP BY g HAVING count(*) > 1) ORDER BY id|SELECT g, id FROM t QUALIFY rank() OVER (PARTITION BY g ORDER BY n) = 1 ORDER BY g, id|SELECT g, sum(n) AS c FROM t GROUP BY g QUALIFY rank() OVER (ORDER BY sum(n)) < 3 ORDER BY g
SELECT lag(n) OVER w, sum(p) OVER w FROM t WINDOW w AS (PARTITION BY g ORDER BY id) ORDER BY id|SELECT dt + 1, n + 1L FROM t WHERE id = 3
SELECT id, row_number() OVER (ORDER BY id) AS r FROM t QUALIFY r = 2|SELECT g FROM t GROUP BY g HAVING row_number() OVER (ORDER BY g) = 1|SELECT id FROM t WHERE row_number() OVER (ORDER BY id) = 1
SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n), max(n) AS top FOR p IN (1, 2 AS two)) ORDER BY g
SELECT * FROM (SELECT g, p, t2, n FROM t) PIVOT (sum(n) AS u, count(*) FOR (p, t2) IN ((1, 'a') AS x, (2, 'b'))) ORDER BY g
SELECT * FROM (SELECT t2, n FROM t) PIVOT (sum(n) FOR t2 IN ('a', 'b', ''))|SELECT * FROM (SELECT g, p, t2 FROM t) PIVOT (max(t2) FOR p IN (1, 2)) ORDER BY g
SELECT * FROM (SELECT g, p, n FROM t) PIVOT (collect_list(n) FOR p IN (1, 2)) ORDER BY g|SELECT * FROM (SELECT g, p, t2 FROM t) PIVOT (max(t2), count(*) FOR p IN (1, 3)) ORDER BY g
SELECT * FROM (SELECT g, p, m FROM t) PIVOT (avg(m) FOR p IN (1, 2)) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN (1, NULL)) ORDER BY g
SELECT * FROM (SELECT dt, n FROM t) PIVOT (sum(n) FOR dt IN (DATE '2024-02-29', DATE '1970-01-01' AS start))|SELECT * FROM (SELECT g, b, n FROM t) PIVOT (sum(n) FOR b IN (true, false)) ORDER BY g
SELECT * FROM (SELECT m, n FROM t) PIVOT (sum(n) FOR m IN (1.50, 0.01))|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (round(sum(n) / count(*), 1) AS r FOR p IN (1, 2)) ORDER BY g
SELECT g, z.one FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN (1 AS one)) AS z WHERE z.one > 0 ORDER BY g|SELECT count(*), sum(`1`) FROM t PIVOT (sum(n) FOR p IN (1))
WITH c AS (SELECT g, p, n FROM t) SELECT * FROM c PIVOT (sum(n) FOR p IN (1, 2)) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN ('1')) ORDER BY g
SELECT * FROM (SELECT g, p, n FROM t) PIVOT (count(DISTINCT n) FOR p IN (1, 2)) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN (1, 1)) ORDER BY g
SELECT * FROM (SELECT g, n, p FROM t) PIVOT (sum(p) u FOR n IN (-1 AS neg, 1)) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN (1 + 0)) ORDER BY g
SELECT * FROM (SELECT g, p, n FROM t) PIVOT (n FOR p IN (1)) ORDER BY g|SELECT * FROM (SELECT g, p FROM t) PIVOT (sum(p) FOR p IN (1, 2)) ORDER BY g
SELECT x.g, y.one FROM (SELECT DISTINCT g FROM t) x JOIN (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN (1 AS one)) y ON x.g = y.g ORDER BY 1
SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FILTER (WHERE n > 0) FOR p IN (1, 2)) ORDER BY g|SELECT * FROM (SELECT g, d, n FROM t) PIVOT (sum(n) FOR d IN (0, 2.5)) ORDER BY g
SELECT * FROM (SELECT l, n FROM t) PIVOT (sum(n) FOR l IN (1, 2))|SELECT * FROM (SELECT i, n FROM t) PIVOT (sum(n) FOR i IN (1L))|SELECT * FROM (SELECT G, P, N FROM t) PIVOT (SUM(n), MAX(N) FOR p IN (1)) ORDER BY g
SELECT * FROM (SELECT g, p, t2, n FROM t) PIVOT (sum(n) FOR (p, t2) IN ((1, 'a'), (2, ''))) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) + 1 FOR p IN (1, 5)) ORDER BY g
SELECT * FROM (SELECT g, p, n FROM t) PIVOT (coalesce(sum(n), 0) AS u FOR p IN (1, 5)) ORDER BY g|SELECT * FROM (SELECT g, p, t2 FROM t) PIVOT (coalesce(max(t2), 'none') FOR p IN (1, 5)) ORDER BY g
SELECT * FROM (SELECT g, p, dt FROM t) PIVOT (min(dt) FOR p IN (1, 5)) ORDER BY g|SELECT * FROM (SELECT g, p, t2 FROM t) PIVOT (first(t2) FOR p IN (1, 5)) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t WHERE false) PIVOT (sum(n) FOR p IN (1)) ORDER BY g
SELECT * FROM (SELECT p, n FROM t WHERE false) PIVOT (sum(n) FOR p IN (1))|SELECT * FROM (SELECT ts, n FROM t) PIVOT (sum(n) FOR ts IN (TIMESTAMP '1970-01-01'))|SELECT * FROM (SELECT p, nope FROM t) PIVOT (sum(p) FOR p IN (1))
SELECT * FROM (SELECT id, n, p FROM t WHERE id < 9) UNPIVOT (v FOR k IN (n, p)) ORDER BY id, k|SELECT * FROM (SELECT id, n, p FROM t WHERE id < 9) UNPIVOT INCLUDE NULLS (v FOR k IN (n, p)) ORDER BY id, k
SELECT * FROM (SELECT id, n, p FROM t WHERE id < 9) UNPIVOT EXCLUDE NULLS (v FOR k IN (n AS one, p two)) ORDER BY id, k|SELECT * FROM (SELECT id, n, p FROM t) UNPIVOT (v FOR k IN (n AS 'one', p)) ORDER BY id, k
SELECT * FROM (SELECT id, n, l, m FROM t WHERE id < 9) UNPIVOT (v FOR k IN (n, l, m)) ORDER BY id, k|SELECT * FROM (SELECT id, n, p, i, j FROM t WHERE id < 9) UNPIVOT ((v, w) FOR k IN ((n, p) AS x, (i, j))) ORDER BY id, k
SELECT z.v, z.k FROM (SELECT id, n, p FROM t WHERE id < 9) UNPIVOT (v FOR k IN (n, p)) AS z ORDER BY z.id, z.k|SELECT * FROM (SELECT id, n, t2 FROM t) UNPIVOT (v FOR k IN (n, t2)) ORDER BY id
SELECT * FROM (SELECT id, st, n FROM t WHERE id < 5) UNPIVOT (v FOR k IN (st.x, n)) ORDER BY id, k|SELECT * FROM (SELECT id, n, p FROM t WHERE id < 9) UNPIVOT (n FOR k IN (n, p)) ORDER BY id, k
SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN (1 AS a, 2 AS b)) UNPIVOT (v FOR k IN (a, b)) ORDER BY g, k|SELECT count(*), count(DISTINCT k) FROM t UNPIVOT INCLUDE NULLS (v FOR k IN (y, h, i))
SELECT * FROM (SELECT n, p FROM t WHERE id < 4) UNPIVOT (v FOR k IN (*)) ORDER BY k, v|SELECT * FROM (SELECT id, dt, ts FROM t WHERE id < 9) UNPIVOT (v FOR k IN (dt, ts)) ORDER BY id, k|SELECT * FROM (SELECT id, n FROM t WHERE id < 4) UNPIVOT ((v) FOR k IN ((n))) ORDER BY id
SELECT id, k FROM (SELECT id, n, i, p FROM t WHERE id < 9) UNPIVOT ((v, w) FOR k IN ((n, p), (i, p) AS y)) ORDER BY id, k|SELECT k, sum(v) AS q FROM (SELECT id, n, p FROM t) UNPIVOT (v FOR k IN (n, p)) GROUP BY k ORDER BY k
SELECT * FROM (SELECT g, t2, n FROM t) PIVOT (sum(n) FOR t2 IN (1)) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN (1.5, 2)) ORDER BY g
SELECT * FROM (SELECT g, dt, n FROM t) PIVOT (sum(n) FOR dt IN ('2024-02-29')) ORDER BY g|SELECT * FROM (SELECT g, p, n FROM t) PIVOT (sum(n) FOR p IN ('x')) ORDER BY g
SELECT nope FROM t|SELECT id, count(*) FROM t|SELECT a, FROM t
"""

ALSO = r"""
row current_timezone()
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'HOST')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'PATH')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'QUERY')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'REF')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'PROTOCOL')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'FILE')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'AUTHORITY')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'USERINFO')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'QUERY', 'e')
row parse_url('http://u:p@a.b:80/c/d?e=f&g=#h', 'QUERY', 'g')
row parse_url('http://a.b', 'QUERY', 'x')
row parse_url('http://a.b', 'PATH')
row parse_url('http://a.b?x=1', 'FILE')
row parse_url('file:///a/b', 'HOST')
row parse_url('file:///a/b', 'AUTHORITY')
row parse_url('https://192.168.1.1:8080/x%20y?q=%C3%A9&q=2', 'QUERY', 'q')
row parse_url('https://Example.COM/a;b=1,2/~x', 'HOST')
row parse_url('https://Example.COM/a;b=1,2/~x', 'PATH')
row parse_url('http://a.b/?', 'QUERY')
row parse_url('http://a.b/#', 'REF')
row parse_url('http://@a.b/', 'USERINFO')
row parse_url(s, 'HOST')
row parse_url('s3://bucket/key?x', 'AUTHORITY')
row parse_url('http://a.b./x', 'HOST')
row parse_url('http://localhost/x?a=1&ba=2', 'QUERY', 'a')
row parse_url('http://h/x?ba=2', 'QUERY', 'a')
row str_to_map('a:1,b:2', ',', ':')
row str_to_map('a=1;b=2;c', ';', '=')
row str_to_map(s)
row str_to_map(s, ',')
row str_to_map('a:1:2,b:', ',', ':')
row str_to_map('a|1', '\\|', ':')
row str_to_map('a:1,a:2')
row str_to_map('')
row str_to_map(',')
row str_to_map('a::b,,', ',', '::')
row str_to_map(concat('k', id, '=', s), '&', '=')['k1']
row from_json('{"a": [1, 2], "b": {"c": "x"}}', 'a ARRAY<INT>, b STRUCT<c: STRING>')
row from_json('{"a": 5, "b": {"c": 7}}', 'a ARRAY<INT>, b STRUCT<c: STRING>')
row from_json('{"a": [1, null], "b": "x"}', 'a ARRAY<INT>, b STRUCT<c: STRING>')
row from_json('{"a": [1, "x"], "b": null}', 'a ARRAY<INT>, b STRUCT<c: STRING>')
row from_json('[1, 2, 3]', 'ARRAY<INT>')
row from_json('[{"a": 1}, {"a": "x"}, {}, null]', 'ARRAY<STRUCT<a: INT>>')
row from_json('{"a": 1}', 'ARRAY<STRUCT<a: INT>>')
row from_json('{"x": 1, "y": null}', 'MAP<STRING, INT>')
row from_json('{"x": 1, "y": "z"}', 'MAP<STRING, INT>')
row from_json('{"x": 1, "x": 2}', 'MAP<STRING, INT>')
row from_json('{"x": {"q": [1.5]}}', 'MAP<STRING, STRING>')
row from_json('{"x": {"q": 1}}', 'MAP<STRING, STRUCT<q: BIGINT>>')
row from_json('nope', 'MAP<STRING, INT>')
row from_json('nope', 'ARRAY<INT>')
row from_json('', 'ARRAY<INT>')
row from_json('null', 'ARRAY<INT>')
row from_json('{"a": 1, "a": "x"}', 'a INT')
row from_json('{"a": 1, "a": null}', 'a INT')
row from_json('{"a": "x", "a": 3}', 'a INT')
row from_json('{"m": 1.005, "n": 12345678901.5, "o": 3}', 'm DECIMAL(10, 2), n DECIMAL(10, 2), o DECIMAL(5, 1)')
row from_json('{"m": 99999999.995}', 'm DECIMAL(10, 2)')
row from_json('{"m": 1e3, "n": -0.5}', 'm DECIMAL(10, 2), n DECIMAL(3, 0)')
row from_json('{"m": true, "n": ""}', 'm DECIMAL(10, 2), n DECIMAL(3, 0)')
row from_json('{"d": "2024-02-29", "t": "2024-02-29T10:00:00Z"}', 'd DATE, t TIMESTAMP')
row from_json('{"d": "2024-02-29", "t": "2024-02-29 10:00:00.5"}', 'd DATE, t TIMESTAMP')
row from_json('{"d": "2024-02-30", "t": "2024-02-29 10:00:00+02:30"}', 'd DATE, t TIMESTAMP')
row from_json('{"d": true, "t": []}', 'd DATE, t TIMESTAMP')
row from_json('{"d": "", "t": ""}', 'd DATE, t TIMESTAMP')
row from_json('{"t": 5}', 't TIMESTAMP')
row from_json(js, 'a STRING, b ARRAY<STRING>, c STRUCT<d: STRING>')
row from_json(js, 'MAP<STRING, STRING>')
row from_json(js, 'ARRAY<STRING>')
row from_json('{"a": {"b": {"c": [[1, 2], [3]]}}}', 'a STRUCT<b: STRUCT<c: ARRAY<ARRAY<INT>>>>')
row from_json('{"a": [{"b": 1, "c": "x"}, {"b": 2}]}', 'a ARRAY<STRUCT<b: INT, c: STRING>>').a[0].c
row from_json('{"a": [{"b": "no", "c": "x"}]}', 'a ARRAY<STRUCT<b: INT, c: STRING>>')
row from_json('{"a": {"b": "no", "c": "x"}}', 'a STRUCT<b: INT, c: STRING>')
row from_json('{"a": {"k": {"b": "no"}}}', 'a MAP<STRING, STRUCT<b: INT>>')
row sequence(DATE '2024-01-31', DATE '2024-06-30', INTERVAL 1 MONTH)
row sequence(DATE '2024-01-31', DATE '2023-01-01', INTERVAL '-3' MONTH)
row sequence(DATE '2024-01-01', DATE '2025-12-31', INTERVAL 1 YEAR)
row sequence(DATE '2024-01-01', DATE '2024-01-20', INTERVAL 1 WEEK)
row sequence(DATE '2024-01-01', DATE '2024-01-03', INTERVAL 12 HOURS)
row sequence(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL 6 HOURS)
row sequence(TIMESTAMP '2024-01-31 10:00:00', TIMESTAMP '2024-05-31', INTERVAL 1 MONTH)
row sequence(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-03')
row sequence(TIMESTAMP '2024-01-02', TIMESTAMP '2024-01-01', INTERVAL '-90' MINUTES)
row sequence(TIMESTAMP_NTZ '2024-01-01', TIMESTAMP_NTZ '2024-01-04', INTERVAL 36 HOURS)
row sequence(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '0 05:30:00' DAY TO SECOND)
row sequence(DATE '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL 6 HOURS)
row size(sequence(ts, ts + INTERVAL 1 DAY, INTERVAL 1 HOUR))
query SELECT ts - tu AS q FROM t WHERE id < 9 ORDER BY id
query SELECT ts - tu FROM t WHERE id < 3 ORDER BY id
query SELECT INTERVAL 1 DAY AS q
query SELECT INTERVAL 1 DAY, INTERVAL 3 HOURS, INTERVAL '1 02:03:04.5' DAY TO SECOND
query SELECT dt - du AS q, id FROM t ORDER BY q, id
query SELECT q, count(*) AS c FROM (SELECT dt - du AS q FROM t) GROUP BY q ORDER BY q
query SELECT dt - du AS q, count(*) AS c FROM t GROUP BY dt - du ORDER BY q
query SELECT dt - du AS q, count(*) AS c FROM t GROUP BY q ORDER BY q
query SELECT dt - du AS q, count(*) AS c FROM t GROUP BY 1 ORDER BY 1
query SELECT DISTINCT dt - du AS q FROM t ORDER BY q DESC NULLS FIRST
query WITH d AS (SELECT id, ts - tu AS took FROM t) SELECT id, took, took > INTERVAL 1 DAY AS late FROM d ORDER BY id
query WITH d AS (SELECT id, ts - tu AS took FROM t) SELECT id FROM d WHERE took > INTERVAL 1 DAY ORDER BY took, id
query WITH d AS (SELECT id, dt - du AS took FROM t) SELECT max(took), min(took) FROM d
query WITH d AS (SELECT id, dt - du AS took FROM t) SELECT count(took), count(DISTINCT took), avg(took) FROM d
query SELECT sum(dt - du) AS q FROM t WHERE id < 12
query SELECT avg(ts - tu) AS q FROM t WHERE id < 12
query SELECT dt - du AS q FROM t UNION ALL SELECT INTERVAL 3 DAYS
query SELECT INTERVAL 1 DAY AS q UNION SELECT INTERVAL 1 DAY
query SELECT INTERVAL 1 DAY AS q UNION ALL SELECT 5
query SELECT ts + took AS q FROM (SELECT ts, dt - du AS took FROM t WHERE id < 2) ORDER BY q
query SELECT took, took * 2 AS w, took / 2 AS h FROM (SELECT ts - tu AS took FROM t WHERE id < 2)
query SELECT x.q FROM (SELECT INTERVAL 1 DAY AS q) x JOIN (SELECT INTERVAL 24 HOURS AS q) y ON x.q = y.q
query SELECT (SELECT max(dt) - min(dt) FROM t) AS q
query SELECT g, max(ts) - min(ts) AS span FROM t GROUP BY g ORDER BY g
query SELECT g, max(ts) - min(ts) AS span FROM t GROUP BY g ORDER BY span, g
query SELECT g, max(ts) - min(ts) AS span FROM t GROUP BY g HAVING span > INTERVAL 1 DAY ORDER BY g
query SELECT id, ts - lag(ts) OVER (ORDER BY id) AS gap FROM t ORDER BY id
query SELECT id, ts - tu AS q, q > INTERVAL 1 DAY AS r FROM t WHERE id < 5 ORDER BY id
query SELECT * FROM (SELECT INTERVAL 1 DAY AS a, 2 AS b)
query SELECT count(*) FROM (SELECT ts - tu AS q FROM t) WHERE q IS NULL
query SELECT count(*) FROM t WHERE (ts - tu) IN (INTERVAL 0 SECOND, INTERVAL 1 DAY)
query SELECT count(*) FROM t WHERE ts - tu BETWEEN INTERVAL '-10' DAY AND INTERVAL 10 DAYS
query SELECT * FROM (SELECT g, dt - du AS q FROM t) PIVOT (count(*) FOR g IN (1, 2)) ORDER BY q
query SELECT q, rank() OVER (ORDER BY q) AS r FROM (SELECT dt - du AS q FROM t) ORDER BY r, q
query SELECT coalesce(q, INTERVAL 0 SECONDS) AS r FROM (SELECT id, ts - tu AS q FROM t) ORDER BY id
row coalesce(ts - tu, INTERVAL 1 DAY)
row coalesce(ts - tu, dt - du)
row coalesce(dt - du, NULL)
row CASE WHEN n > 0 THEN ts - tu ELSE INTERVAL 0 SECONDS END
row CASE WHEN n > 0 THEN dt - du END
row CASE WHEN n > 0 THEN dt - du ELSE 5 END
row if(b, INTERVAL 1 DAY, INTERVAL 1 HOUR)
row IF(b, INTERVAL 1 DAY, NULL)
row nullif(dt - du, INTERVAL 0 DAYS)
row greatest(dt - du, INTERVAL 0 DAYS)
row least(ts - tu, INTERVAL 3 DAYS, NULL)
row abs(dt - du)
row abs(ts - tu) < INTERVAL 1 DAY
row nvl2(n, INTERVAL 1 DAY, INTERVAL 2 DAYS)
row isnull(ts - tu)
row (ts - tu) IS NOT NULL
row -(ts - tu)
row negative(dt - du)
row INTERVAL 1 DAY IN (INTERVAL 1 DAY, NULL)
row (dt - du) NOT IN (INTERVAL 1 DAY, INTERVAL 24 HOURS)
row coalesce(INTERVAL 1 MONTH, INTERVAL 1 YEAR) > INTERVAL 3 MONTHS
row coalesce(INTERVAL 1 MONTH, INTERVAL 1 DAY)
row dt + coalesce(du - dt, INTERVAL 1 DAY)
row INTERVAL 1 DAY + INTERVAL 3 HOURS
row make_dt_interval(1, 2, 3, 4.5)
row (ts - tu) / 2
row CAST(n AS INTERVAL DAY)
row sum(dt - du) OVER (PARTITION BY g)
group max(dt) - min(dt)
group max(dt - du)
group count(dt - du)
group avg(dt - du)
row to_date('2/9/2024', 'M/d/yyyy')
row to_date('02/09/2024', 'M/d/yyyy')
row to_date('002/9/2024', 'M/d/yyyy')
row to_date('-2/9/2024', 'M/d/yyyy')
row to_date('+2/9/2024', 'M/d/yyyy')
row to_date('2/30/2024', 'M/d/yyyy')
row to_date('13/1/2024', 'M/d/yyyy')
row to_date('24-02-29', 'yy-MM-dd')
row to_date('99-02-28', 'yy-MM-dd')
row to_date('Feb 29, 2024', 'MMM d, yyyy')
row to_date('FEB 29, 2024', 'MMM d, yyyy')
row to_date('february 29, 2024', 'MMMM d, yyyy')
row to_date('Feb 29, 2024', 'MMMM d, yyyy')
row to_date('February 29, 2024', 'MMM d, yyyy')
row to_date('May 1, 2024', 'MMMM d, yyyy')
row to_date('Sept 1, 2024', 'MMM d, yyyy')
row to_date('29Feb2024', 'ddMMMyyyy')
row to_date('2024-02', 'yyyy-MM')
row to_date('2024', 'yyyy')
row to_date('12024-02-01', 'yyyy-MM-dd')
row to_date(' 2024-02-01', 'yyyy-MM-dd')
row to_date('2024-02-01 10', 'yyyy-MM-dd HH')
row to_date('2024-02-01x', 'yyyy-MM-dd')
row to_timestamp('2/9/2024 5:07', 'M/d/yyyy H:mm')
row to_timestamp('2/9/2024 5:07:09 PM', 'M/d/yyyy h:mm:ss a')
row to_timestamp('2/9/2024 12:07:09 am', 'M/d/yyyy hh:mm:ss a')
row to_timestamp('2/9/2024 13:07:09 AM', 'M/d/yyyy hh:mm:ss a')
row to_timestamp('2/9/2024 0:07 AM', 'M/d/yyyy h:mm a')
row to_timestamp('2024-02-29 10:20:30.123', 'yyyy-MM-dd HH:mm:ss.SSS')
row to_timestamp('2024-02-29 10:20:30.1', 'yyyy-MM-dd HH:mm:ss.SSS')
row to_timestamp('2024-02-29 10:20:30.1234', 'yyyy-MM-dd HH:mm:ss.SSS')
row to_timestamp('2024-02-29 10:20:30.', 'yyyy-MM-dd HH:mm:ss.SSS')
row to_timestamp('2024-02-29 10:20:30', 'yyyy-MM-dd HH:mm:ss.SSS')
row to_timestamp('2024-02-29 10:20:30.123456789', 'yyyy-MM-dd HH:mm:ss.SSSSSSSSS')
row to_timestamp('2024-02-29 10:20:30.5', 'yyyy-MM-dd HH:mm:ss.S')
row to_timestamp('2024-02-29T10:20:30Z', 'yyyy-MM-dd''T''HH:mm:ss<offset>')
row to_timestamp('2024-02-29T10:20:30+02:30', "yyyy-MM-dd'T'HH:mm:ss<offset>")
row to_timestamp('2024-02-29t10:20:30z', "yyyy-MM-dd'T'HH:mm:ss<offset>")
row to_timestamp('2024-02-29T10:20:30+0230', "yyyy-MM-dd'T'HH:mm:ss<offset>")
row to_timestamp('2024-02-29 10:20:30 -0800', 'yyyy-MM-dd HH:mm:ss Z')
row to_timestamp('2024-02-29 10:20:30 Z', 'yyyy-MM-dd HH:mm:ss Z')
row to_timestamp('2024-02-29T10:20:30.123Z', "yyyy-MM-dd'T'HH:mm:ss.SSS<offset>")
row to_timestamp('2024-02-29T10:20:30+18:30', "yyyy-MM-dd'T'HH:mm:ss<offset>")
row to_timestamp('29.02.2024 24:00', 'dd.MM.yyyy HH:mm')
row to_timestamp('2024-02-29 10', 'yyyy-MM-dd HH')
row to_timestamp('5:07 PM', 'h:mm a')
row to_timestamp('20240229102030', 'yyyyMMddHHmmss')
row to_timestamp('20240229T102030', "yyyyMMdd'T'HHmmss")
row unix_timestamp('2/9/2024', 'M/d/yyyy')
row to_unix_timestamp('9 Feb 2024 08:00', 'd MMM yyyy HH:mm')
row to_timestamp('2024-1-1 1:2:3', 'yyyy-M-d H:m:s')
row to_date('1/2/24', 'M/d/yy')
row to_date('1/2/2024', 'M/d/yy')
row s RLIKE '(?i)a'
row s RLIKE '(?i)hello'
row s RLIKE '(?i)[^A-C]'
row s RLIKE '(?i)^É'
row s RLIKE '(?i)ß|K'
row '\u212a\u017f' RLIKE '(?i)k'
row '\u212a\u017f' RLIKE '(?i)s'
row '_' RLIKE '(?i)[Z-a]'
row 'z' RLIKE '(?i)^[Z-a]$'
row 'A' RLIKE '(?i)^[Z-a]$'
row 'B' RLIKE '(?i)^[Z-a]$'
row regexp_replace(s, '(?i)A', '*')
row regexp_extract(s, '(?i)(WORLD|b)', 1)
row split(s, '(?i)A')
row regexp_count(s, '(?i)l')
row s RLIKE 'a(?i)b'
row (n, p) IN ((1, 2), (3, 3))
row (n, p) IN ((1, NULL), (NULL, 3))
row (n, p) NOT IN ((1, 2), (3, 3))
row (n, p) = (p, n)
row (n, s) IN ((1, 'a'), (2, 'b'))
row (n, p) IN ((1L, 2), (3, 3.5))
row (d, e) IN ((0.0D, double('NaN')), (-0.0D, 1.0D))
row (n, p) IN ((1, '2'))
row struct(n, p) IN (struct(1, 2), struct(3, 3))
row arrays_overlap(a, array(1, 9))
row l = '9223372036854775807'
row dt IN ('2024-02-29', '1970-01-01')
row round(i, -9)
row from_unixtime(l)
row hash(-0.0D, 0.0D)
row elt(2, 'a', 'b')
row CAST(array(array(1), NULL) AS STRING)
row map_from_entries(array(struct('a', 1), struct('b', 2)))
row sqrt(-1)
row instr('😀x', 'x')
row find_in_set('a,b', 'a,b')
row unbase64('YWJj')
row extract(dow FROM dt)
group any_value(n)
row 1.0 / 3.0 / 7.0
row get_json_object(js, '$')
row day > TIMESTAMP '2024-01-01 00:00:00'
window lag(n, 1, 1.5) OVER (ORDER BY id)
row m + 1L
row o / m
row ln(-1)
window count(*) OVER (ORDER BY y RANGE BETWEEN 100 PRECEDING AND 100 FOLLOWING)
row lower('İI ΑΣ Σ ΟΔΥΣΣΕΥΣ')
row TRY_CAST('-1.9' AS INT)
row to_date('20240229', 'yyyyMMdd')
window count(*) OVER (PARTITION BY f, n)
row CASE WHEN n > 0 THEN '5' ELSE n END
window cume_dist() OVER (PARTITION BY g ORDER BY n)
row hash(y, h, i, l)
row if(n > 0, 1.0, 2.00)
row concat_ws(',', `as`)
row 0e0 / 0e0
row map_from_arrays(array('a', 'b'), array(1, 2))
row CAST(mp AS MAP<STRING, DOUBLE>)
row CAST(array(m) AS STRING)
row last_day('2024-02-10')
row xxhash64('')
row TRY_CAST('on' AS BOOLEAN)
row CAST(i AS FLOAT)
row coalesce(f, 1)
row i >> 33
row date_format(ts, 'yyyyMMdd''T''HHmmssSSSSSS')
row 1 IN (NULL)
row .5
row s LIKE 'a/_b' ESCAPE '/'
row CAST(m AS FLOAT)
group mode(n)
row 12345678901234567890.123456789 * 9.87654321
row array_repeat(s, -1)
row try_element_at(a, 2)
row from_unixtime(0, 'yyyy-MM-dd HH:mm:ss.SSS')
row round(m, 5)
row CAST(number AS DECIMAL(10, 2))
row chr(n + 64)
window max(d) OVER (PARTITION BY g)
row TRY_CAST('12:30' AS TIMESTAMP)
row NULL OR true
row 'a\nb' LIKE 'a_b'
row filter(a, x -> x > 1)
row number = 12.0
row array_append(a, 4)
row CASE WHEN n > 0 THEN 1 WHEN n < 0 THEN 2.50 ELSE 3e0 END
row 4 & 2 = 0
row d < double('NaN')
group var_pop(f)
row TRY_CAST(number AS DECIMAL(3, 1))
row TRY_CAST('2024-01-01 junk' AS DATE)
group sum(if(b, 1, NULL))
row TRY_CAST('.' AS INT)
row regexp_replace(s, '(a)', '\\1')
row make_timestamp(2024, 2, 29, 12, 30, 59.999999)
row pow(-8, 1/3)
row format_number(12345.678, 2)
row -7.5 % 2
row regexp_extract(s, '([a-z])([0-9])?', 2)
row timestampdiff(MONTH, ts, tu)
row CAST(CAST(0 AS DECIMAL(10, 7)) AS STRING)
row CASE WHEN n > 0 THEN dt WHEN n < 0 THEN ts END
row TRY_CAST('12024-01-01' AS DATE)
row s RLIKE 'a|b'
row trim('\t\n a \n')
row n BETWEEN '1' AND 3
window sum(p) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
row CASE s WHEN 1 THEN 'a' ELSE 'b' END
row array_union(a, array(1, NULL))
row flatten(array(a, array(1)))
window lead(s, 1, 'x') OVER (PARTITION BY g ORDER BY id)
row elt(n, s, t2)
row split_part('abc', '', 1)
row m / 3L
group sum(CASE WHEN b THEN 1.5 END)
row trim(BOTH 'xa' FROM s)
window ntile(4) OVER (PARTITION BY g ORDER BY id)
row sequence(10, 1, -4)
row CAST(array(d, e) AS STRING)
row s BETWEEN 'a' AND 5
row s RLIKE '^a'
row nvl2(NULL, 1, 2.5)
row ceil(-0.5)
row regexp_extract(s, '([a-z])([0-9])', 1)
row format_number(12345.678, 0)
row rpad(s, 4)
row unix_timestamp('2024-01-01', 'yyyy-MM-dd')
row split('a,b,,', ',', 0)
row d IN (double('NaN'), 1)
row repeat(s, -1)
row n > 1 = b
row left('😀x', 1)
group variance(p)
row reverse('😀e\u0301x')
row f IN (float('NaN'))
row round(d, 15)
row to_timestamp('2024-02-29 10.20', 'yyyy-MM-dd HH.mm')
row TRY_CAST('+inf' AS DOUBLE)
row format_number(0.135, 2)
row upper('straße ǆ ﬁ')
row y div 2
row -y
row x < x'00ff'
row locate('x', '😀x', 0)
row exists(a, x -> x > 2)
row w - m
row mp['zz']
row CAST(d AS DECIMAL(10, 3))
row named_struct('a', n, 'b', s)
row array_repeat(n, p)
row split('', ',')
row ~-1
row coalesce(dt, '2024-01-01')
row d = double('NaN')
row unhex('zz')
row CAST(n AS TIMESTAMP)
group bit_or(l)
row CAST(array(dt, du) AS STRING)
row weekday(dt) + dayofweek(dt)
row w div 3
row day = DATE '2024-01-01'
row space(n)
row m * 1L
row round(0.5D)
row map(-0.0D, 1)
row CAST(a AS ARRAY<DOUBLE>)
row i * i
row nanvl(f, 0)
row s LIKE '_'
row s ILIKE 'É'
row ~y
row CAST(`as` AS ARRAY<INT>)
row CAST(1.0e16 AS STRING)
group string_agg(t2, ',')
row TRY_CAST('Infinity' AS DOUBLE)
row CAST(w AS FLOAT)
row exp(710)
row l >> -1
row TRY_CAST('2024-13-01' AS DATE)
row greatest(b, c)
row array_min(`as`)
row l * l
row dateadd(MONTH, 1, dt)
row s LIKE ''
row k = l + 0.0
row levenshtein('😀a', 'a')
row date_diff(dt, du)
window rank() OVER (ORDER BY n DESC NULLS FIRST)
row least(dt, ts)
row w / m
row sha2(s, 384)
window nth_value(n, 2) IGNORE NULLS OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
row datediff('2024-03-01', '2024-02-01')
window rank() OVER (ORDER BY d)
window sum(p) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)
row f IN (0.1, 1.5)
row TRY_CAST('1_000' AS INT)
row floor(o, 2)
window rank() OVER (ORDER BY s)
row pmod(-7, 3)
row lpad('😀', 3, '日')
row slice(a, -2, 2)
row NOT NULL
row s RLIKE '[^a]'
row l << 64
row aggregate(a, 0, (acc, x) -> acc + x)
row regexp_substr(s, '[0-9]+')
row d = 0.1
row forall(a, x -> x > 0)
row add_months(dt, -1)
row format_string('%,d', l)
row regexp_replace(s, '\\s+', ' ')
row TRY_CAST('  true ' AS BOOLEAN)
row trim(LEADING FROM s)
row CAST(b AS INT) + CAST(b AS DOUBLE)
row bin(-1)
row filter(a, (x, i) -> i > 0)
group map_from_entries(collect_list(struct(id, n)))
window lag(n) OVER (ORDER BY id)
row CAST(map(n + 10, s) AS STRING)
row xxhash64(ts, tn, dt, NULL)
window sum(n) OVER (PARTITION BY g ORDER BY n)
row date_format(dt, 'yyyy/MM/dd HH')
row split('a1b2c3', '[0-9]', 2)
row d > double('inf')
query SELECT DISTINCT mp FROM t
row d <=> double('NaN')
row '\u00e9\101\0\%\_\Z'
row date_format('2024-02-29', 'dd.MM.yyyy')
window lead(n) IGNORE NULLS OVER (PARTITION BY g ORDER BY id)
row number = 1e3
row array_insert(a, 2, 9)
row unix_timestamp(s)
row s RLIKE '\\w+\\s'
query SELECT id, n IN (SELECT p FROM t) AS q FROM t ORDER BY id
row to_timestamp(d)
row floor(-12345.6, -2)
row hash(d, f)
row sequence(1, n)
window lead(n, -1) OVER (ORDER BY id)
row 'a\'b'
row nanvl(d, f)
row TRY_CAST('-infinity' AS DOUBLE)
row regexp_extract(s, '([a-z])([0-9])', 2)
window avg(n) OVER (PARTITION BY g)
row coalesce(n, m, d)
window sum(n) OVER (PARTITION BY g ORDER BY n ROWS UNBOUNDED PRECEDING)
row 0.1 * 0.1 * 0.1 * 0.1 * 0.1
row char(256 + 65)
row m IN (n, d)
row TRY_CAST('0x10' AS INT)
row map_filter(mp, (k, v) -> v > 1)
group stddev_pop(d)
row l = 1.0
row day < tn
row translate('😀abc', '😀a', 'xy')
row array_join(`as`, ',', 'N')
row split_part(s, ',', 2)
window sum(p) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)
row transform(a, x -> transform(a, y -> x + y))
row split('a,b,,', ',')
row ts - dt > INTERVAL 1 DAY
row TRY_CAST(l AS SMALLINT)
row map(d, 1)
row CASE WHEN n > 0 THEN w ELSE m * m END
group max(struct(d, s))
group sum(sum(n)) OVER (ORDER BY g)
row bround(i, -1)
row ln(0)
group count(n, p)
row CAST(d * 1e-10 AS STRING)
row CASE WHEN n > 0 THEN w ELSE l END
window count(*) OVER (PARTITION BY a)
row array_intersect(a, array(1, NULL))
row n IN (1.5, '2')
group var_samp(m)
row concat(s, 1.50, d, b)
row from_json(js, 'a INT')
query SELECT id, n IN (SELECT p FROM t WHERE p IS NOT NULL) AS q FROM t ORDER BY id
row CAST(w * 0.0000001 AS STRING)
row TRY_CAST('nan' AS DOUBLE)
row 1 + 2 * 3 - 4 / 2 % 3
row w % m
row 1.5e3F
row sequence(1, 10, 3)
row timestampdiff(DAY, dt, ts)
window lag(n) IGNORE NULLS OVER (ORDER BY id)
row s LIKE '%'
row NULL IS DISTINCT FROM n
row shiftright(l, 1)
row date_part('seconds', tn)
row n IN (1, 2.0, 3e0)
row CAST(struct(n, s, NULL) AS STRING)
row pmod(l, -3)
row date_add('2024-01-31', 1)
row CAST(0.0000001 AS STRING)
group count(DISTINCT d, e)
row TRY_CAST('1.9' AS INT)
row to_json(struct(d AS d, f AS f))
row filter(a, x -> x IS NULL)
window first(n) OVER (ORDER BY id ROWS 2 PRECEDING)
row TRY_CAST('2024-01-01Tjunk' AS DATE)
row array_insert(a, 5, 9)
row right('😀x', 1)
window count(*) OVER (PARTITION BY d)
row hash(dt, ts, tn)
row regexp_replace(s, 'a', '$0')
group covar_samp(m, n)
row from_utc_timestamp(ts, '+05:30')
row 2 - -1
row zip_with(a, `as`, (x, y) -> concat(x, y))
row nullif(dt, '2024-02-29')
row TRY_CAST('1.' AS INT)
row timestampadd(HOUR, 25, ts)
row xxhash64(repeat('abcdefgh', 9))
window sum(p) OVER (ORDER BY n DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)
group bool_and(n > 0)
row 100Y
query SELECT count(*) FROM t WHERE n NOT IN (SELECT p FROM t WHERE p IS NOT NULL)
row CASE n WHEN '1' THEN 'a' WHEN 2.0 THEN 'b' END
group array_sort(collect_list(s))
row X'1'
group concat_ws(',', collect_list(t2))
row dt IN (ts, tu)
row TRY_CAST('-' AS INT)
row initcap('hello WORLD-foo bar_baz éa 1st o''neil')
row aggregate(a, 0, (acc, x) -> acc + coalesce(x, 0))
row CAST(1e-7 AS STRING)
row isnan(f)
row CAST('1 ' AS DOUBLE)
row concat_ws(',', `as`, s, t2)
row -1e308 * 10
row ts IN (dt, du)
row st.x + 1
row m > f
row sequence(5, 1)
row isnull(NULL)
row f = CAST(0.1 AS FLOAT)
row i = l AND l = i
row to_date('2024-02-30', 'yyyy-MM-dd')
row 1e0 / 0e0
row h * h
row CAST(d AS FLOAT)
row round(i, -10)
group listagg(DISTINCT t2, ',') WITHIN GROUP (ORDER BY t2)
row y / 2
row date_format(ts, 'hh:mm a')
row n IN ('1', '2')
row CASE WHEN n > 0 THEN f ELSE m END
row try_element_at(mp, 'zz')
group percentile(m, 0.25)
row CASE WHEN n > 0 THEN '2024-01-01' ELSE dt END
row round(d, -1)
row coalesce(w, 1.123456789012345678901234567890)
row d IN (float('0.1'), 0.1)
row CAST(array(b) AS STRING)
row round(2.5D)
row d IS NOT DISTINCT FROM e
row TRY_CAST('1d' AS DOUBLE)
row add_months('2024-01-31', 1)
row 1 | 2 = 3
row least(m, o, w)
row format_number(n, 2)
row CAST(f AS DECIMAL(10, 3))
row s || d
row format_string('%5d|%-5s|%05.1f', n, t2, d)
row least(f, d)
row date_trunc('week', tn)
row 1BD
row s LIKE '__'
row s RLIKE 'é'
row log(1, 10)
row dt BETWEEN '2020-01-01' AND ts
row 1 < 2 AND 2 < 3 OR false
row greatest(x, x)
row from_unixtime(1700000000, 'EEEE, d MMMM yyyy h:mm a')
row b AND NULL
query SELECT count(*) FROM t WHERE n NOT IN (SELECT p FROM t)
row m IN (1, 1.5, 0.01)
row xxhash64(f, d, -0.0D)
row s || ts
row 1e-2
row split('a1b2c3', '[0-9]')
row ceil(1.2345, 2)
row zip_with(a, a, (x, y) -> x + y)
row s RLIKE '.'
row round(y, -1)
row n NOT IN (1, NULL)
row f = 0.1D
row months_between(ts, tu, false)
row CAST(1.0e7 AS STRING)
row pmod(m, 0.3)
window percent_rank() OVER (PARTITION BY g ORDER BY n)
row s RLIKE 'a$'
row TRY_CAST('2024-01-01 1:2:3' AS TIMESTAMP)
window count(*) OVER (PARTITION BY st)
row pow(0, 0)
row number < 1L
row d BETWEEN -1 AND double('NaN')
row greatest(-0.0D, 0.0D)
row coalesce(f, 1L)
row xxhash64(m, w)
row find_in_set('', s)
window lag(n, 2, 0) OVER (ORDER BY id)
row n & 3 | 4 ^ 1
row bround(o, 3)
row factorial(21)
row TRY_CAST('+2024-01-01' AS DATE)
row 'a' || NULL
row NULL AND false
row mod(-7.5, 2)
row number IN (12, -3)
row slice(a, 2, 0)
row CAST(b AS DECIMAL(3, 1))
row 10.00 / 4
row to_timestamp(n)
row TRY_CAST('2024-01-01 10:00:00 UTC+3' AS TIMESTAMP)
row d = -0.0D
row sha2(s, 224)
row TIMESTAMP '2024-01-01 10:00:00+02:00'
row unhex('F')
row round(1.005D, 2)
row w = l
row format_number(w, 4)
row shiftrightunsigned(i, 1)
row array_join(a, '-')
window stddev(n) OVER (PARTITION BY g)
row 99999999999999999999999999999999999999 + 0.1
row 1.0BD
row timestampadd(MONTH, 1, ts)
row m + n
row transform(`as`, x -> upper(x))
row from_unixtime(n * 100000000L)
row hash(m, o, w)
group last(s, true)
group avg(m) / 3
row TRY_CAST('2024-01-01 10:00:00 EST' AS TIMESTAMP)
row typeof(1.5 + n)
row make_timestamp(2024, 2, 29, 12, 30, 60)
row greatest(1, 2.5, 3e0)
row CASE WHEN n > 0 THEN f ELSE l END
row CAST(ts AS DECIMAL(20, 6))
row substring_index('a.b.c', '.', -2)
row TRY_CAST('' AS INT)
group corr(d, e)
row regexp_replace(s, '[aeiou]', '')
row l = 9223372036854775807.0
window sum(n) FILTER (WHERE b) OVER (PARTITION BY g)
row s RLIKE '^$'
row s IN (1, 2)
row to_date(ts)
row CAST(CAST(0 AS DECIMAL(38, 10)) AS STRING)
row s NOT LIKE NULL
row f > 0.1
group coalesce(sum(n), 0) + count(*)
row array_except(a, array(1))
row i ^ l
group sort_array(collect_set(n))
row extract(second FROM ts)
row log(0, 10)
group max_by(s, d)
row extract(yearofweek FROM dt)
group round(sum(m) * 100 / sum(o), 2)
group sum(m * m)
row TRY_CAST('1e2' AS DECIMAL(5, 1))
row greatest(s, NULL, t2)
row CAST(' 1\t' AS INT)
row y << 9
row coalesce(NULL, NULL)
row date_part('quarter', dt)
row coalesce(f, 1.5)
row round(f, 1)
group avg(DISTINCT m)
row translate(s, 'abc', 'x')
row CAST(2 AS DECIMAL(38, 18)) * CAST(3 AS DECIMAL(38, 18))
row chr(-1)
row date_trunc('quarter', ts)
row pmod(d, 3)
row transform(a, x -> x + 1)
row xxhash64(s, x, a, st)
row regexp_replace(s, 'a', '\\\\')
row coalesce(x, 'abc')
row CAST(number AS DECIMAL(5, 0))
row n IS NOT DISTINCT FROM p
row 'a''b'
row array_except(array(1, 1, NULL, 2), a)
row pow(2, -1)
row '😀' LIKE '_'
row concat(n, dt)
window sum(n) OVER (PARTITION BY NULL)
row TRY_CAST('1e2' AS INT)
row TRY_CAST('2024-01-01 10' AS TIMESTAMP)
row b = 'yes'
row s LIKE 'a\\\\b'
row months_between('2024-02-29', '2024-01-31')
row CAST(m AS DECIMAL(3, 1))
query SELECT count(*) FROM t WHERE NOT (n IN (SELECT p FROM t WHERE p > 2))
row split_part('a,b,c', ',', -1)
row format_number(d, 3)
row CASE m WHEN 0.01 THEN 'a' WHEN 1 THEN 'b' WHEN 1.5e0 THEN 'c' END
row log10(1000)
row coalesce(y, h, 1.5)
row number > 5
row b > 'false'
row nullif(1, NULL)
window row_number() OVER (PARTITION BY g ORDER BY n, id)
row w * m
row date_sub(ts, 1)
window avg(m) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
group rank() OVER (ORDER BY max(n) DESC NULLS LAST)
row TRY_CAST('2024-01-01T' AS DATE)
row from_utc_timestamp('2024-03-31 01:30:00', 'Europe/Berlin')
row if(b, s, x)
row factorial(-1)
row cardinality(mp)
group sum(n) FILTER (WHERE b)
group array_agg(p)
row CASE WHEN n > 0 THEN m WHEN n < 0 THEN o ELSE l END
row reduce(a, 1, (acc, x) -> acc * coalesce(x, 1))
row s || n + 1
row l div -1
group sum(h * 1)
window dense_rank() OVER (PARTITION BY g ORDER BY f)
window last_value(n, true) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
row transform_keys(mp, (k, v) -> upper(k))
row +n
row f = 0.1
row try_divide(1e0, 0)
row date_format(ts, 'E EEE EEEE')
window ntile(7) OVER (ORDER BY id)
group max_by(n, s)
row CAST(123456789.123D AS STRING)
group count(DISTINCT f)
row hash(struct(a, s))
row CASE WHEN n > 0 THEN '5' ELSE d END
row startswith(s, '')
row exists(a, x -> x IS NULL)
window count(*) OVER (ORDER BY l RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)
row transform(a, (x, i) -> x * i)
query SELECT count(*) FROM t WHERE NULL
query SELECT count(*) FROM t WHERE (NULL)
query SELECT count(*) FROM t WHERE coalesce(NULL, NULL)
query SELECT count(*) FROM t WHERE NULL AND b
query SELECT count(*) FROM t WHERE NOT NULL
query SELECT count(*) FROM t WHERE CAST(NULL AS BOOLEAN)
query SELECT count(*) FROM t WHERE if(true, NULL, NULL)
query SELECT g, count(*) FROM t GROUP BY g HAVING NULL
query SELECT count(*) FILTER (WHERE NULL) FROM t
query SELECT count(*) FROM t x JOIN t y ON NULL
query SELECT count(*) FROM t x LEFT JOIN t y ON NULL
query SELECT id FROM t QUALIFY NULL
query SELECT count(*) FROM t GROUP BY ()
query SELECT g, count(*) FROM t GROUP BY g, ()
query SELECT count(*) FROM t GROUP BY (g, b) ORDER BY 1
query SELECT g, count(*) FROM t GROUP BY (g, b)
query SELECT g, b, count(*) FROM t GROUP BY (g), (b) ORDER BY 1, 2
query SELECT count(*) FROM t GROUP BY GROUPING SETS (())
query SELECT g, count(*) FROM t GROUP BY GROUPING SETS ((g), ()) ORDER BY 1
query SELECT g, c, count(*) FROM t GROUP BY ROLLUP(g, c) ORDER BY 1, 2, 3
query SELECT g, c, count(*) FROM t GROUP BY ROLLUP(1, 2) ORDER BY 1, 2, 3
query SELECT g, c, count(*) FROM t GROUP BY g, ROLLUP(c) ORDER BY 1, 2, 3
query SELECT g, c, count(*), grouping(c) FROM t GROUP BY CUBE(g, c) ORDER BY 1, 2, 3, 4
query SELECT g, c, grouping_id(g, c), sum(n) FROM t GROUP BY GROUPING SETS ((g, c), (g), ()) ORDER BY 1, 2, 3
query SELECT g, c, count(*) FROM t GROUP BY g, c WITH ROLLUP ORDER BY 1, 2, 3
query SELECT a FROM (SELECT 1 AS a, 2 AS A)
query SELECT A FROM (SELECT 1 AS a, 2 AS A)
query WITH q AS (SELECT id AS a, n AS A FROM t) SELECT q.a FROM q
query SELECT * FROM (SELECT 1 AS a, 2 AS A)
query SELECT q.* FROM (SELECT 1 AS a, 2 AS A) q
query SELECT * EXCEPT (a) FROM (SELECT 1 AS a, 2 AS A)
query SELECT 1 AS x1 FROM (SELECT 1 AS a, 2 AS A) WHERE A = 2
query SELECT count(*) FROM (SELECT id AS a, n AS A FROM t) x JOIN (SELECT id AS a FROM t) y USING (a)
query SELECT n FROM (SELECT n, n FROM t WHERE id = 3)
query SELECT n, n FROM t WHERE id < 5 ORDER BY n, id
query SELECT id, n AS id FROM t ORDER BY id
query SELECT *, id + 1 AS id FROM t ORDER BY id LIMIT 1
query SELECT id AS q, n AS q FROM t GROUP BY q, n ORDER BY 1, 2 LIMIT 3
query SELECT * EXCEPT (id) FROM (SELECT id FROM t) a JOIN (SELECT id, n FROM t) b ON a.id = b.id ORDER BY n, b.id LIMIT 2
query SELECT x.id FROM t x JOIN t y ON x.id = y.id WHERE id = 1
query SELECT NOT b IS NULL FROM t WHERE id = 1
query SELECT b IS NOT NULL FROM t WHERE id = 1
query SELECT NOT (b IS NULL), NOT b IS NOT NULL, NOT NOT b IS NULL FROM t WHERE id = 1
query SELECT NOT b IS TRUE, b IS NOT TRUE, NOT b IS NOT FALSE FROM t WHERE id = 1
query SELECT NOT isnull(b), isnotnull(b), n + 1 IS NOT NULL FROM t WHERE id = 1
query SELECT count(NOT b IS NULL), count_if(b IS NOT NULL) FROM t
query SELECT b IS NOT NULL, count(*) FROM t GROUP BY NOT b IS NULL
query SELECT isnotnull(b), count(*) FROM t GROUP BY b IS NOT NULL ORDER BY 1
query SELECT b IS NOT NULL, count(*) FROM t GROUP BY b IS NOT NULL ORDER BY 1
query SELECT NOT b IS NULL, count(*) FROM t GROUP BY NOT b IS NULL ORDER BY 1
query SELECT id FROM t WHERE id < 3 UNION SELECT n FROM t WHERE n < 0 ORDER BY 1
query SELECT id FROM t WHERE id < 3 UNION ALL SELECT l FROM t WHERE id < 2 ORDER BY id
query SELECT n FROM t INTERSECT SELECT p FROM t ORDER BY 1
query SELECT n FROM t INTERSECT ALL SELECT p FROM t ORDER BY 1
query SELECT n FROM t EXCEPT ALL SELECT p FROM t ORDER BY n NULLS LAST
query SELECT n FROM t MINUS SELECT p FROM t ORDER BY n DESC
query SELECT m FROM t WHERE id < 4 UNION SELECT o FROM t WHERE id < 4 ORDER BY 1
query SELECT m FROM t WHERE id < 4 UNION ALL SELECT d FROM t WHERE id < 4 ORDER BY 1
query SELECT f FROM t WHERE id < 9 UNION SELECT d FROM t WHERE id < 9 ORDER BY 1
query SELECT dt FROM t WHERE id < 4 UNION SELECT ts FROM t WHERE id < 4 ORDER BY 1
query SELECT s FROM t WHERE id < 4 UNION ALL SELECT n FROM t WHERE id < 4 ORDER BY 1
query SELECT NULL AS q UNION ALL SELECT 1 ORDER BY q
query SELECT NULL UNION SELECT NULL
query SELECT id, n FROM t WHERE id < 2 UNION ALL SELECT n, id FROM t WHERE id < 2 ORDER BY 1, 2
query SELECT 1 AS q UNION ALL SELECT 2 UNION SELECT 2 ORDER BY q
query SELECT 1 AS q UNION SELECT 2 UNION ALL SELECT 2 ORDER BY q
query SELECT 1 AS q UNION ALL SELECT 2 INTERSECT SELECT 2 ORDER BY q
query SELECT 1 AS q UNION SELECT 2 EXCEPT SELECT 1 ORDER BY q
query (SELECT 1 AS q UNION SELECT 2) EXCEPT (SELECT 1) ORDER BY q
query SELECT array(n) AS q FROM t WHERE id < 4 UNION ALL SELECT array(l) FROM t WHERE id < 4 ORDER BY q[0], 1
query SELECT st FROM t WHERE id < 6 UNION SELECT st FROM t WHERE id < 6 ORDER BY st.x
query SELECT b FROM t UNION SELECT c FROM t ORDER BY 1
query SELECT b FROM t WHERE id = 0 UNION SELECT n FROM t WHERE id = 0
query SELECT count(*) FROM (SELECT n FROM t UNION SELECT p FROM t) WHERE n > 1
query SELECT id FROM t ORDER BY id LIMIT 2 UNION ALL SELECT 99
query (SELECT id FROM t ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM t ORDER BY id DESC LIMIT 2) ORDER BY id
query SELECT id FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.p = x.n AND y.g = x.g) ORDER BY id
query SELECT id FROM t x WHERE NOT EXISTS (SELECT 1 FROM t y WHERE y.p = x.n AND y.id > x.id) ORDER BY id
query SELECT id FROM t x WHERE n > (SELECT avg(n) FROM t y WHERE y.g = x.g) ORDER BY id
query SELECT id, (SELECT max(n) FROM t y WHERE y.g = x.g AND y.id < x.id) AS q FROM t x ORDER BY id
query SELECT id, (SELECT count(*) FROM t y WHERE y.n = x.p) AS q FROM t x ORDER BY id
query SELECT id, (SELECT count(*) + 1 FROM t y WHERE y.n = x.p) AS q FROM t x ORDER BY id
query SELECT id, (SELECT sum(y.n) FROM t y WHERE y.g = x.g AND y.b) AS q FROM t x ORDER BY id
query SELECT id FROM t WHERE n IN (SELECT p FROM t WHERE p < 3) AND p NOT IN (SELECT n FROM t WHERE n > 0) ORDER BY id
query SELECT id FROM t WHERE n NOT IN (SELECT p FROM t) ORDER BY id
query SELECT id FROM t WHERE (n, g) IN (SELECT p, g FROM t) ORDER BY id
query SELECT id FROM t WHERE (n, g) NOT IN (SELECT p, g FROM t WHERE p IS NOT NULL AND g IS NOT NULL) ORDER BY id
query SELECT id FROM t x WHERE n IN (SELECT y.p FROM t y WHERE y.g = x.g) ORDER BY id
query SELECT id FROM t x WHERE n IN (SELECT y.p FROM t y WHERE y.g > x.g) OR id = 3 ORDER BY id
query SELECT id, EXISTS (SELECT 1 FROM t y WHERE y.n = x.p) AS q FROM t x ORDER BY id
query SELECT id, n IN (SELECT p FROM t y WHERE y.g = x.g) AS q FROM t x ORDER BY id
query SELECT g, (SELECT max(id) FROM t) - max(id) AS q FROM t GROUP BY g ORDER BY g
query SELECT g, count(*) FROM t GROUP BY g HAVING count(*) > (SELECT 5) ORDER BY g
query SELECT id FROM t WHERE id = (SELECT min(id) FROM t WHERE n = (SELECT max(n) FROM t))
query SELECT (SELECT id FROM t WHERE id = 99) AS q
query SELECT (SELECT id FROM t) AS q
query SELECT x.id FROM t x LEFT SEMI JOIN t y ON x.n = y.p AND y.id < 10 ORDER BY id
query SELECT x.id FROM t x LEFT ANTI JOIN t y ON x.n = y.p ORDER BY id
query SELECT x.id, y.id FROM t x FULL JOIN t y ON x.id = y.id + 40 ORDER BY 1 NULLS LAST, 2 NULLS LAST LIMIT 60
query SELECT id, y.n FROM t x JOIN (SELECT id, n FROM t WHERE id < 3) y USING (id) ORDER BY id
query SELECT id, x.n, y.n FROM t x FULL JOIN (SELECT id + 46 AS id, n FROM t) y USING (id) ORDER BY id LIMIT 100
query SELECT count(*) FROM t x CROSS JOIN t y WHERE x.n = y.p
query SELECT count(*) FROM t x, t y WHERE x.id = y.n
query SELECT x.id, q.v FROM t x, LATERAL (SELECT x.n + 1 AS v) q WHERE x.id < 5 ORDER BY x.id
query SELECT x.id, q.v FROM t x JOIN LATERAL (SELECT max(y.n) AS v FROM t y WHERE y.g = x.g) q ORDER BY x.id
query SELECT x.id, q.v FROM t x LEFT JOIN LATERAL (SELECT y.n AS v FROM t y WHERE y.id = x.n) q ON true ORDER BY x.id
query SELECT * FROM (SELECT g, c, n FROM t WHERE g < 3) PIVOT (sum(n) FOR c IN (true, false)) ORDER BY g
query SELECT * FROM (SELECT g, c, n, id FROM t WHERE g < 3) PIVOT (sum(n) AS sn, count(id) AS ci FOR c IN (true AS yes, false AS no)) ORDER BY g
query SELECT * FROM (SELECT g, n, p FROM t) PIVOT (max(p) FOR n IN (1, 2, 7)) ORDER BY g
query SELECT * FROM (SELECT g, n, b, p FROM t) PIVOT (max(p) FOR (n, b) IN ((1, true), (2, false) AS q)) ORDER BY g
query SELECT * FROM (SELECT g, t2, n FROM t) PIVOT (avg(n) FOR t2 IN ('a', 'b', '')) ORDER BY g
query SELECT * FROM (SELECT g, dt, n FROM t) PIVOT (sum(n) FOR dt IN (DATE '1970-01-01', DATE '2024-02-29' AS leap)) ORDER BY g
query SELECT * FROM (SELECT id, n, p FROM t WHERE id < 4) UNPIVOT (v FOR name IN (n, p)) ORDER BY id, name
query SELECT * FROM (SELECT id, n, p FROM t WHERE id < 4) UNPIVOT INCLUDE NULLS (v FOR name IN (n AS first, p AS second)) ORDER BY id, name
query SELECT * FROM (SELECT id, n, p, j, i FROM t WHERE id < 4) UNPIVOT ((v, w2) FOR name IN ((n, p) AS np, (j, i) AS ji)) ORDER BY id, name
query SELECT * FROM (SELECT id, n, l FROM t WHERE id < 4) UNPIVOT (v FOR name IN (n, l)) ORDER BY id, name
query SELECT * FROM (SELECT id, s, n FROM t WHERE id < 4) UNPIVOT (v FOR name IN (s, n)) ORDER BY id, name
query SELECT id, x1 FROM t LATERAL VIEW explode(a) q AS x1 WHERE id < 12 ORDER BY id, x1 NULLS FIRST
query SELECT id, x1 FROM t LATERAL VIEW OUTER explode(a) q AS x1 WHERE id < 12 ORDER BY id, x1 NULLS FIRST
query SELECT id, p1, x1, y1 FROM t LATERAL VIEW posexplode(a) q AS p1, x1 LATERAL VIEW explode(`as`) r AS y1 WHERE id < 20 ORDER BY id, p1, y1 NULLS FIRST
query SELECT id, k1, v1 FROM t LATERAL VIEW OUTER explode(mp) q AS k1, v1 WHERE id < 12 ORDER BY id, k1 NULLS FIRST
query SELECT x1, count(*) FROM t LATERAL VIEW explode(a) q AS x1 GROUP BY x1 ORDER BY x1
query SELECT id, x1 * 2 AS q FROM t LATERAL VIEW explode(transform(a, v -> v + 1)) z AS x1 WHERE id < 12 ORDER BY id, q NULLS FIRST
query SELECT id, col FROM t LATERAL VIEW explode(array(n, p)) WHERE id < 4 ORDER BY id, col NULLS FIRST
query SELECT id, explode(a) FROM t WHERE id < 12 ORDER BY id, col NULLS FIRST
query SELECT id, posexplode_outer(a) AS (p1, v1) FROM t WHERE id < 12 ORDER BY id, p1
query SELECT id, inline(array(struct(n, p), struct(p, n))) FROM t WHERE id < 3 ORDER BY id, n
query SELECT stack(2, id, n, p) FROM t WHERE id < 3 ORDER BY 1 NULLS LAST, 2
query SELECT explode(sequence(1, 3)) + 1
query SELECT id, explode(split(s, ',')) AS w1 FROM t WHERE s LIKE '%,%' ORDER BY id, w1
query SELECT sum(x1) FROM t LATERAL VIEW OUTER explode(a) q AS x1 GROUP BY g ORDER BY g
query SELECT id, x1, sum(x1) OVER (PARTITION BY id ORDER BY p1) AS q FROM t LATERAL VIEW posexplode(a) z AS p1, x1 WHERE id < 12 ORDER BY id, p1
query SELECT id, x2 FROM t LATERAL VIEW explode(a) q AS x1 LATERAL VIEW explode(sequence(0, x1)) r AS x2 WHERE id < 12 ORDER BY id, x1, x2
window sum(n) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
window sum(m) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
window count(n) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING)
window avg(n) OVER (PARTITION BY g ORDER BY p RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)
window sum(id) OVER (PARTITION BY g ORDER BY p DESC RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)
window sum(id) OVER (PARTITION BY g ORDER BY p NULLS LAST RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
window min(s) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
window max(d) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)
window first(n) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)
window last(n, true) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
window lag(n, 2, -1) OVER (PARTITION BY g ORDER BY id DESC)
window lead(m, 1, 0) OVER (PARTITION BY g ORDER BY id)
window lead(m, 1, 0.5) OVER (PARTITION BY g ORDER BY id)
window lag(dt, 1, DATE '2000-01-01') OVER (ORDER BY id)
window lag(ts - tu) OVER (PARTITION BY g ORDER BY id)
window lead(ts - tu, 1, INTERVAL '0 00:00:00' DAY TO SECOND) OVER (PARTITION BY g ORDER BY id)
window lag(dt - du, 1) OVER (PARTITION BY g ORDER BY id)
window lag(dt - du, 1, INTERVAL 1 DAY) OVER (PARTITION BY g ORDER BY id)
window lag(ts - tu, 1, INTERVAL 1 DAY) OVER (PARTITION BY g ORDER BY id)
window lag(ts - tu, 1, NULL) OVER (PARTITION BY g ORDER BY id)
window first_value(ts - tu) OVER (PARTITION BY g ORDER BY id)
window nth_value(dt - du, 2) OVER (PARTITION BY g ORDER BY id)
window percent_rank() OVER (PARTITION BY g ORDER BY n DESC)
window dense_rank() OVER (ORDER BY n, p NULLS LAST)
window row_number() OVER (PARTITION BY b, c ORDER BY id)
window sum(sum(n)) OVER (PARTITION BY g)
window stddev_pop(n) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
window count_if(n > 0) OVER (PARTITION BY g ORDER BY id)
window max_by(n, id) OVER (PARTITION BY g)
window sum(n) OVER (PARTITION BY g ORDER BY dt RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 30 DAYS FOLLOWING)
window n - lag(n) OVER (PARTITION BY g ORDER BY id) + 1
window sum(n) OVER (PARTITION BY g) / count(*) OVER (PARTITION BY g)
window rank() OVER (PARTITION BY g ORDER BY n NULLS FIRST, id DESC)
row transform(a, (v, q) -> v * q)
row filter(a, v -> v IS NOT NULL AND v > 1)
row aggregate(a, CAST(0 AS BIGINT), (acc, v) -> acc + coalesce(v, 0))
row aggregate(a, 0, (acc, v) -> acc + coalesce(v, 0), acc -> acc * 10)
row reduce(filter(a, v -> v IS NOT NULL), '', (acc, v) -> concat(acc, v))
row exists(`as`, v -> v LIKE 'a%')
row forall(a, v -> v < p)
row zip_with(a, `as`, (v, w1) -> concat(v, w1))
row array_sort(a, (l1, r1) -> CASE WHEN l1 > r1 THEN -1 WHEN l1 < r1 THEN 1 ELSE 0 END)
row map_filter(mp, (k1, v1) -> v1 > 1 OR k1 = 'a')
row transform_values(mp, (k1, v1) -> coalesce(v1, 0) + n)
row transform_keys(mp, (k1, v1) -> concat(k1, '_', v1))
row map_zip_with(mp, mp, (k1, v1, v2) -> v1 + v2)
row transform(sequence(1, 3), v -> v * n)
row transform(a, v -> array(v, n))
row flatten(transform(a, v -> array(v, v)))
row array_join(transform(a, v -> coalesce(CAST(v AS STRING), 'x')), '-')
row size(filter(`as`, v -> v != ''))
row try_element_at(a, 9)
row slice(a, 2, 2)
row array_union(a, array(CAST(7 AS BIGINT)))
row array_intersect(a, array(1L, 2L))
row array_except(a, array(1.0, NULL))
row arrays_overlap(a, array(1L))
row array_contains(a, 1L)
row array_position(a, 2)
row array_max(a) - array_min(a)
row sort_array(`as`, false)
row reverse(a)
row concat(a, array(9L))
row map_concat(mp, map('z', 1))
row map_keys(mp)[0]
row map_from_arrays(array('x', 'y'), array(n, p))
row map_entries(map('k', n))
row CASE WHEN b THEN array(1) ELSE array(1L) END
row CASE WHEN b THEN a ELSE array(1.5) END
row CASE WHEN b THEN a ELSE array('x') END
row if(b, array(d), array(n))
row coalesce(a, array(l))
row coalesce(a, array(dt))
row CASE WHEN b THEN map('a', 1) ELSE map('a', 1.5) END
row CASE WHEN b THEN mp ELSE map('q', l) END
row CASE WHEN b THEN struct(n AS q) ELSE struct(l AS q) END
row CASE WHEN b THEN struct(n AS q) ELSE struct(l AS r) END
row if(b, array(array(n)), array(array(l, NULL)))
row array(array(1), array(2L), array(NULL))
row array(struct(1 AS q), struct(2.5 AS q))
row if(b, array(dt), array(ts))
row if(b, array(m), array(o))
row if(b, array(f), array(l))
row coalesce(array(NULL), a)
row nullif(a, array(1))
row a = array(1, 2, 3)
row array(n, m, d)
row array(1, 'a')
row CASE WHEN n > 1 THEN 1 WHEN n < 0 THEN 2.5 ELSE 3L END
row CASE WHEN n > 1 THEN y WHEN n < 0 THEN h END
row CASE WHEN b THEN m WHEN c THEN w ELSE n END
row CASE WHEN b THEN f ELSE l END
row CASE WHEN b THEN dt WHEN c THEN tn END
row CASE WHEN b THEN ts ELSE tn END
row CASE WHEN b THEN s ELSE n END
row CASE WHEN b THEN s ELSE dt END
row CASE WHEN b THEN b ELSE n END
row CASE WHEN b THEN x ELSE s END
row CASE n WHEN 1 THEN 'a' WHEN 2L THEN 'b' WHEN 3.0 THEN 'c' ELSE NULL END
row CASE t2 WHEN 'a' THEN 1 WHEN NULL THEN 2 ELSE 3 END
row CASE WHEN b THEN NULL END
row CASE WHEN b THEN 1 ELSE 'x' END
row CASE WHEN b THEN INTERVAL 1 DAY ELSE ts - tu END
row m - w
row o % m
row m + 1.005
row m * 0.333333333333
row w / 3
row CAST(m AS DECIMAL(20, 10)) / CAST(o AS DECIMAL(20, 2))
row round(o, 1)
row floor(o, 1)
row abs(m) + abs(o)
row m IN (0.01, 1, 2.5)
row m BETWEEN -1 AND o
row greatest(m, o, n)
row least(m, d)
row nullif(m, 0)
row coalesce(m, o, 0)
row pmod(o, 3)
row mod(m, 0.7)
row CAST(o AS DECIMAL(5, 1))
row TRY_CAST(w AS DECIMAL(12, 2))
row CAST(o * 100 AS INT)
row sign(m) * power(o, 2)
row m / 0.3
row 1 / m
row 1.0 / 3 * 3
row 12345678901234567890.12 + m
row -m % 3
group sum(m * o)
group sum(o) / count(o)
group sum(DISTINCT m)
group avg(DISTINCT n)
group max(m) - min(o)
group sum(CASE WHEN b THEN m ELSE 0 END)
group sum(if(n > 0, n, 0.5))
group count(DISTINCT n, p)
group count(DISTINCT CASE WHEN b THEN n END)
group sort_array(collect_list(DISTINCT n))
group max(struct(n, p))
group min(a)
group max_by(n, id)
group stddev(m)
group sum(try_divide(n, p))
group listagg(t2, ';') WITHIN GROUP (ORDER BY id)
group map_from_arrays(collect_list(id), collect_list(id))
row char_length('😀é')
row substring('😀日本x', 2, 2)
row substr(s, 0, 2)
row right('x😀', 1)
row reverse('a😀b')
row lpad('😀', 4, '日x')
row rpad('日', 3, '😀')
row instr('a😀b', 'b')
row locate('本', '日本', 1)
row position('x' IN '😀x')
row translate(s, 'a日é', 'xy')
row replace(s, 'é', 'e')
row overlay(s PLACING 'ZZ' FROM 2)
row overlay(s PLACING 'ZZ' FROM 2 FOR 0)
row initcap('élan vital o''neil a-b')
row upper('é日')
row lower('ÀÉ')
row ascii('😀')
row chr(233)
row split('a😀b😀c', '😀')
row split_part('a😀b', '😀', 2)
row concat_ws('😀', 'a', NULL, s)
row repeat('é', 3)
row trim('日' FROM '日本日')
row ltrim('xy', s)
row btrim(s, 'a ')
row levenshtein(s, 'ab')
row decode(encode(s, 'UTF-8'), 'UTF-8')
row base64(encode(s, 'UTF-8'))
row unbase64(base64(encode(s, 'UTF-8')))
row regexp_replace(s, '[éa]', '<$0>')
row regexp_extract('日本123', '([0-9]+)', 1)
row regexp_instr(s, 'b')
row regexp_extract_all(s, '([a-z])')
row s RLIKE '^[A-Z]'
row s RLIKE '\\d{2}'
row s RLIKE 'a\\.b|\\s'
row s RLIKE '日+'
row s LIKE 'Ab\\%\\_'
row s LIKE '%é%'
row s LIKE 'a!_b' ESCAPE '!'
row s LIKE '%/%/_' ESCAPE '/'
row s NOT LIKE 'a%'
row 'a\\b' LIKE 'a\\\\b'
row 'a' LIKE 'a\\'
row startswith(s, t2) OR endswith(s, t2)
row s = 'é' OR s = 'e\u0301'
row greatest(s, t2, 'é')
row s || t2 || NULL
row concat(n, ':', m, ':', d)
row format_string('%s-%05d', s, n)
row elt(2, s, t2)
row find_in_set(t2, 'a,b,ab')
row date_trunc('QUARTER', dt)
row last_day(dt) - dt
row next_day(dt, 'SU')
row make_date(n + 2020, p, 1)
row date_add(dt, n) > du
row EXTRACT(YEAROFWEEK FROM dt)
row date_part('DOW', dt)
row ts BETWEEN tu AND tu + INTERVAL 1 DAY
row CAST(ts AS DATE) = dt
row ts > dt
row CASE WHEN ts > tu THEN ts - tu END
row timestampadd(MONTH, n, ts)
row date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS')
row unix_timestamp(ts) - unix_timestamp(tu)
row CAST(unix_micros(ts) AS DOUBLE) / 1e6
query SELECT ts - tu AS q FROM t WHERE id < 3 UNION ALL SELECT dt - du FROM t WHERE id < 3
query SELECT INTERVAL 1 DAY AS q UNION ALL SELECT INTERVAL 2 HOURS
query SELECT INTERVAL 1 DAY AS q UNION ALL SELECT NULL
query SELECT INTERVAL 1 MONTH AS q UNION ALL SELECT INTERVAL 2 HOURS
query SELECT DISTINCT dt - du AS q FROM t WHERE id < 6 ORDER BY q
query SELECT array(INTERVAL 1 DAY) AS q
query SELECT INTERVAL '1' MONTH AS q
query WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r ORDER BY n
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 99) SELECT count(*), max(n) FROM r
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 100) SELECT count(*), max(n) FROM r
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 101) SELECT count(*), max(n) FROM r
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 102) SELECT count(*), max(n) FROM r
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r
query WITH RECURSIVE r AS (SELECT id, 0 AS up FROM t WHERE id < 2 UNION ALL SELECT t.id, r.up + 1 FROM t JOIN r ON t.id = r.id + 10) SELECT id, up FROM r ORDER BY id
query WITH RECURSIVE r(id, path) AS (SELECT 1, 'a' UNION ALL SELECT id + 1, concat(path, '/', id) FROM r WHERE id < 4) SELECT * FROM r ORDER BY id
query WITH RECURSIVE r(d1) AS (SELECT DATE '2024-02-27' UNION ALL SELECT d1 + 1 FROM r WHERE d1 < DATE '2024-03-02') SELECT * FROM r ORDER BY d1
query WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r ORDER BY n
query WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1L FROM r WHERE n < 5) SELECT * FROM r ORDER BY n
query WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT max(n) + 1 FROM r WHERE n < 5) SELECT * FROM r ORDER BY n
query WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT DISTINCT n + 1 FROM r WHERE n < 5) SELECT * FROM r ORDER BY n
query WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT x.n + 1 FROM r x JOIN r y ON x.n = y.n WHERE x.n < 5) SELECT * FROM r ORDER BY n
query WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT r.n + 1 FROM t LEFT JOIN r ON t.id = r.n WHERE r.n < 5) SELECT * FROM r ORDER BY n
query SELECT x0.id FROM t x0 WHERE EXISTS (SELECT 1 FROM t y0 WHERE y0.p = x0.n AND y0.g = x0.g) ORDER BY x0.id
query SELECT id FROM t x0 WHERE NOT EXISTS (SELECT 1 FROM t y0 WHERE y0.p = x0.n AND y0.id > x0.id) ORDER BY id
query SELECT id FROM t x0 WHERE n > (SELECT avg(n) FROM t y0 WHERE y0.g = x0.g) ORDER BY id
query SELECT id, (SELECT max(n) FROM t y0 WHERE y0.g = x0.g AND y0.id < x0.id) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT count(*) FROM t y0 WHERE y0.n = x0.p) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT count(*) + 1 FROM t y0 WHERE y0.n = x0.p) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT count(y0.n) FROM t y0 WHERE y0.n = x0.p HAVING count(*) > 2) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT sum(y0.n) FROM t y0 WHERE y0.g = x0.g AND y0.b) AS q FROM t x0 ORDER BY id
query SELECT id, coalesce((SELECT sum(y0.n) FROM t y0 WHERE y0.g = x0.id), 0) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT y0.n FROM t y0 WHERE y0.id = x0.p) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT y0.n FROM t y0 WHERE y0.g = x0.p) AS q FROM t x0 ORDER BY id
query SELECT id FROM t x0 WHERE n IN (SELECT y0.p FROM t y0 WHERE y0.g = x0.g) ORDER BY id
query SELECT id FROM t x0 WHERE n NOT IN (SELECT y0.p FROM t y0 WHERE y0.g = x0.g AND y0.p IS NOT NULL) ORDER BY id
query SELECT id FROM t x0 WHERE n IN (SELECT y0.p FROM t y0 WHERE y0.g > x0.g) OR id = 3 ORDER BY id
query SELECT id FROM t x0 WHERE EXISTS (SELECT 1 FROM t y0 WHERE y0.n = x0.p AND EXISTS (SELECT 1 FROM t z0 WHERE z0.id = y0.id + 1 AND z0.b)) ORDER BY id
query SELECT id FROM t x0 WHERE EXISTS (SELECT max(y0.n) FROM t y0 WHERE y0.g = 99) ORDER BY id LIMIT 3
query SELECT id FROM t x0 WHERE EXISTS (SELECT y0.g FROM t y0 WHERE y0.g = x0.g GROUP BY y0.g HAVING count(*) > 5) ORDER BY id LIMIT 3
query SELECT id FROM t x0 WHERE EXISTS (SELECT 1 FROM t y0 WHERE y0.n = x0.p LIMIT 1) ORDER BY id
query SELECT id, EXISTS (SELECT 1 FROM t y0 WHERE y0.n = x0.p) AS q FROM t x0 ORDER BY id
query SELECT id, n IN (SELECT p FROM t y0 WHERE y0.g = x0.g) AS q FROM t x0 ORDER BY id
query SELECT id, CASE WHEN EXISTS (SELECT 1 FROM t y0 WHERE y0.n = x0.p) THEN 1 ELSE 0 END AS q FROM t x0 ORDER BY id
query SELECT g, max((SELECT max(p) FROM t)) FROM t GROUP BY g ORDER BY g
query SELECT g FROM t x0 GROUP BY g HAVING EXISTS (SELECT 1 FROM t y0 WHERE y0.p = x0.g) ORDER BY g
query SELECT x0.id FROM t x0 LEFT SEMI JOIN t y0 ON x0.n = y0.p AND y0.id < 10 ORDER BY id
query SELECT x0.id FROM t x0 LEFT ANTI JOIN t y0 ON x0.n = y0.p ORDER BY id
query SELECT x0.id, y0.id FROM t x0 FULL JOIN t y0 ON x0.id = y0.id + 40 ORDER BY 1 NULLS LAST, 2 NULLS LAST LIMIT 60
query SELECT x0.id, q.v FROM t x0, LATERAL (SELECT x0.n + 1 AS v) q WHERE x0.id < 5 ORDER BY x0.id
query SELECT x0.id, q.v FROM t x0 JOIN LATERAL (SELECT max(y0.n) AS v FROM t y0 WHERE y0.g = x0.g) q ORDER BY x0.id
query SELECT x0.id, q.v FROM t x0 LEFT JOIN LATERAL (SELECT y0.n AS v FROM t y0 WHERE y0.id = x0.n) q ON true ORDER BY x0.id
query SELECT x0.id, y0.n FROM t x0 LEFT JOIN t y0 ON x0.n = y0.id AND x0.b ORDER BY 1, 2
query SELECT x0.id, y0.n FROM t x0 RIGHT JOIN t y0 ON x0.n = y0.id WHERE y0.id < 9 ORDER BY 1 NULLS FIRST, 2
query SELECT count(*) FROM t x0 JOIN t y0 ON x0.n <=> y0.p
query SELECT count(*) FROM t x0 JOIN t y0 ON x0.m = y0.o
query SELECT count(*) FROM t x0 JOIN t y0 ON x0.d = y0.e
query SELECT count(*) FROM t x0 JOIN t y0 ON x0.f = y0.d
query SELECT count(*) FROM t x0 JOIN t y0 ON x0.s = y0.t2
query SELECT count(*) FROM t x0 NATURAL JOIN (SELECT id, n FROM t) y0
query SELECT count(*) AS g, g FROM t GROUP BY g ORDER BY g
query SELECT g AS q, count(*) AS q FROM t GROUP BY g ORDER BY q
query SELECT id AS q, n AS q FROM t ORDER BY q LIMIT 1
query SELECT id, x1 FROM t LATERAL VIEW explode(a) AS x1 WHERE id < 12 ORDER BY id, x1 NULLS FIRST
query SELECT id, x1 FROM t LATERAL VIEW explode(a) v x1 WHERE id < 12 ORDER BY id, x1 NULLS FIRST
query SELECT id, v.col FROM t LATERAL VIEW explode(a) v WHERE id < 12 ORDER BY id, col NULLS FIRST
query SELECT id, v.k1 FROM t LATERAL VIEW explode(mp) v AS k1, v1 WHERE id < 12 ORDER BY id, k1
query SELECT id, k1 FROM t LATERAL VIEW explode(map_keys(mp)) v AS k1 LATERAL VIEW OUTER explode(`as`) w AS k2 WHERE id < 12 ORDER BY id, k1, k2 NULLS FIRST
query SELECT id, f1, f2 FROM t LATERAL VIEW json_tuple(js, 'a', 'b') v AS f1, f2 ORDER BY id
query SELECT id, r1 FROM t LATERAL VIEW inline(array(struct(n AS r1))) v WHERE id < 4 ORDER BY id
query SELECT * FROM (SELECT id, a FROM t WHERE id < 9) LATERAL VIEW posexplode(a) v ORDER BY id, pos
query SELECT id, sum(x1) AS q FROM t LATERAL VIEW explode(a) v AS x1 GROUP BY id HAVING q > 1 ORDER BY id
query SELECT g, c, count(*) FROM t GROUP BY GROUPING SETS (g, (g, c)) ORDER BY 1, 2 NULLS FIRST, 3
query SELECT g, sum(n) AS q FROM t GROUP BY g HAVING sum(n) IS NOT NULL ORDER BY q DESC, g
query SELECT g + 1 AS q, count(*) FROM t GROUP BY g + 1 ORDER BY g + 1
query SELECT count(DISTINCT n), count(DISTINCT n, p), sum(DISTINCT p) FROM t
query SELECT DISTINCT n, p FROM t WHERE id < 20 ORDER BY n, p
query SELECT DISTINCT n FROM t ORDER BY n DESC NULLS FIRST LIMIT 3 OFFSET 1
query SELECT n FROM t ORDER BY abs(n), n NULLS LAST LIMIT 5
query SELECT id FROM t ORDER BY CASE WHEN b THEN 0 ELSE 1 END, id LIMIT 5
query SELECT id, row_number() OVER (ORDER BY n, id) AS q FROM t QUALIFY q <= 3 ORDER BY q
query SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id DESC) = 1 ORDER BY id
query SELECT g, sum(count(*)) OVER (ORDER BY g) FROM t GROUP BY g ORDER BY g
query SELECT id, n, sum(n) OVER w1, avg(n) OVER w1 FROM t WINDOW w1 AS (PARTITION BY g ORDER BY id) ORDER BY id
query SELECT id, n AS q, q + 1 AS r, r * 2 AS s1 FROM t WHERE id < 4 ORDER BY id
query SELECT * EXCEPT (a, `as`, mp, st) FROM t WHERE id = 3
query SELECT x0.* EXCEPT (a, `as`, mp, st) FROM t x0 WHERE id = 3
query SELECT st.* FROM t WHERE id < 4 ORDER BY x, y
query SELECT st.x, st.y AS q FROM t WHERE st.x IS NOT NULL ORDER BY id LIMIT 4
query VALUES (1, 'a'), (2, NULL) ORDER BY 1 DESC
query SELECT * FROM VALUES (1, 1.5), (2L, 2) AS v(q, r) ORDER BY q
query SELECT * FROM range(3) ORDER BY id
query WITH q AS (SELECT id FROM t WHERE id < 3), r AS (SELECT id + 1 AS id FROM q) SELECT q.id, r.id FROM q JOIN r ON q.id = r.id ORDER BY 1
query WITH q(k1) AS (SELECT id FROM t WHERE id < 3) SELECT k1 FROM q UNION SELECT k1 + 2 FROM q ORDER BY k1
query WITH t AS (SELECT 1 AS id) SELECT id FROM t
query SELECT 1 UNION ALL SELECT 2 ORDER BY 1 LIMIT 1
query (SELECT 1 AS q) UNION ALL (SELECT 2 ORDER BY 1 LIMIT 1) ORDER BY q
query SELECT 1 AS q LIMIT 1 UNION ALL SELECT 2
query SELECT 1 AS q INTERSECT SELECT 1 UNION ALL SELECT 1
query SELECT 1 AS q UNION ALL SELECT 1 EXCEPT ALL SELECT 1
query SELECT dt FROM t WHERE id < 9 INTERSECT SELECT du FROM t ORDER BY 1
query SELECT f FROM t INTERSECT SELECT CAST(d AS FLOAT) FROM t ORDER BY 1
query SELECT d FROM t EXCEPT SELECT e FROM t ORDER BY 1
query SELECT m FROM t INTERSECT SELECT o FROM t ORDER BY 1
query SELECT t2 FROM t EXCEPT ALL SELECT s FROM t ORDER BY 1
query SELECT x FROM t UNION SELECT x FROM t ORDER BY hex(x)
query SELECT a FROM t UNION ALL SELECT `as` FROM t
query SELECT mp FROM t UNION SELECT mp FROM t
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n, (SELECT max(n) FROM r) AS q FROM r ORDER BY n
query WITH RECURSIVE r AS (SELECT 1 AS n, CAST(1.5 AS DECIMAL(10, 2)) AS m1 UNION ALL SELECT n + 1, CAST(m1 * 2 AS DECIMAL(10, 2)) FROM r WHERE n < 5) SELECT * FROM r ORDER BY n
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + x1 FROM r LATERAL VIEW explode(array(1, 2)) v AS x1 WHERE n < 4) SELECT n, count(*) FROM r GROUP BY n ORDER BY n
query WITH RECURSIVE r AS (SELECT id, n FROM t WHERE id = 1 UNION ALL SELECT t.id, t.n FROM r JOIN t USING (id) WHERE false) SELECT * FROM r
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3), q AS (SELECT n * 10 AS n FROM r) SELECT n FROM q UNION ALL SELECT n FROM r ORDER BY n
query WITH RECURSIVE r AS (SELECT 'a' AS s1 UNION ALL SELECT s1 || 'b' FROM r WHERE length(s1) < 4) SELECT * FROM r ORDER BY s1
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT r.n + 1 FROM r LEFT JOIN t ON r.n = t.id AND t.id = 2 WHERE r.n < 4) SELECT * FROM r ORDER BY n
query WITH RECURSIVE r AS (SELECT CAST(NULL AS INT) AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT * FROM r
query WITH RECURSIVE r AS (SELECT id FROM t WHERE id > 99 UNION ALL SELECT id + 1 FROM r) SELECT * FROM r
query WITH RECURSIVE r AS (SELECT id, 1 AS lv FROM t WHERE id = 0 UNION ALL SELECT t.id, lv + 1 FROM t, r WHERE t.id = r.id + 7) SELECT * FROM r ORDER BY lv
query WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r x0 LEFT JOIN r y0 ON x0.n = y0.n + 1 ORDER BY 1
row array_contains(a, 1.0)
row array_contains(array(1L, 2L), n)
row arrays_overlap(a, array(1.0))
row array_union(a, array(NULL))
row array_intersect(`as`, array(1))
row array_union(array(n, p), array(y, h))
row array_except(array(l), a)
row array_append(a, 1L)
row array_append(a, y)
row array_position(a, 1L)
row array_remove(a, 1L)
row element_at(mp, 'a') + 1L
row map_concat(mp, map('z', 1L))
row if(b, a, array(NULL))
row coalesce(st, struct(1L AS x, 'q' AS y))
row if(b, st, struct(1 AS X, 'q' AS Y))
row if(b, struct(n, s), struct(l, t2))
row CASE WHEN b THEN map(n, m) ELSE map(l, o) END
row greatest(n, l, 1.5)
row array(a, array(1L))
row array(y, h, i, l)
row array(f, d)
row array(m, o, n)
row array(dt, ts)
row map('a', n, 'b', l)
row map('a', n, 'b', 1.5)
row named_struct('q', if(b, array(n), array(l)))
row transform(if(b, a, array(1L)), v -> v + 1)
row size(coalesce(a, array(1.5)))
row if(b, a, array(1L))[0]
row in_x IN (1)
row n IN (1, NULL, 2)
row (n, p) IN ((1, 2), (NULL, 3))
row NOT (n = 1 OR p = 2)
row n BETWEEN p AND 3
row n NOT BETWEEN 0 AND p
row n <> p OR n IS NULL
row b OR NULL
row NOT b IS NULL
row NOT n IN (1, 2)
row NOT s LIKE 'a%'
row NOT n BETWEEN 1 AND 2
row NOT b AND c
row b = NOT c
row NOT exists(a, v -> v > 1)
row n = 1 IS NULL
row (n = 1) IS NOT NULL
row n + 1 IS NULL
row b IS NOT DISTINCT FROM c
row NOT b IS DISTINCT FROM c
row b <=> NULL IS NULL
row nvl2(n, 1, 2L)
row nullif(n, 1.0)
row decode(n, 1, 'a', 2, 'b')
row sign(n) || s
row cast(m as string) || cast(d as string)
row substring(s, n, p)
row lpad(s, p, t2)
row regexp_replace(s, '(\\w)(\\d)', '$2$1')
row regexp_extract(s, '(a)|(b)', 2)
row s RLIKE t2
row s LIKE '%\\_%'
row s LIKE '\\%'
row s LIKE '%' ESCAPE '%'
row '' LIKE ''
row NULL LIKE 'a'
row s ILIKE '%ΑΣ%'
row upper(t2) || lower(t2)
row hex(encode(s, 'UTF-8')) = hex(s)
row length(reverse(s)) = length(s)
row substr('😀😀', 2)
row substring('a😀b' FROM 2 FOR 1)
row position('😀', 'a😀')
row rpad('😀', 2, 'ab')
row translate('😀x', '😀', NULL)
row concat_ws(',', array(s, t2), s)
row split(s, ' ', 2)
row from_json(js, 'a STRING').a
query SELECT g, count(*) FROM t GROUP BY ALL ORDER BY g
query SELECT g, b, count(*) AS q FROM t GROUP BY ALL HAVING q > 1 ORDER BY ALL
query SELECT g + 1, sum(n) + 1, max(p) FROM t GROUP BY ALL ORDER BY 1
query SELECT sum(n) FROM t HAVING sum(n) > 0
query SELECT 1 AS q FROM t HAVING count(*) > 0
query SELECT g FROM t HAVING g > 1
query SELECT count(*), sum(n), max(s), collect_list(n), avg(m), count(DISTINCT n) FROM t WHERE false
query SELECT g, count(*) FROM t WHERE false GROUP BY g
query SELECT g, max(n) AS n FROM t GROUP BY g HAVING n > 2 ORDER BY g
query SELECT g, max(n) AS n FROM t GROUP BY g ORDER BY n, g
query SELECT g, max(n) AS q FROM t GROUP BY g ORDER BY max(p), g
query SELECT g, max(n) AS q FROM t GROUP BY g ORDER BY q + 1, g
query SELECT g AS id, count(*) FROM t GROUP BY id ORDER BY 1 LIMIT 3
query SELECT g AS n, count(*) FROM t GROUP BY n ORDER BY 1 LIMIT 3
query SELECT -n AS n FROM t ORDER BY n LIMIT 3
query SELECT -n AS q FROM t ORDER BY -q LIMIT 3
query SELECT n AS p, p AS n FROM t WHERE n = 1 ORDER BY n, p LIMIT 4
query SELECT id, n AS q FROM t WHERE q > 1
query SELECT id AS ID FROM t WHERE ID = 3
query SELECT Id, T.N FROM t AS T WHERE t.iD = 3
query SELECT `id`, `n` AS `a b` FROM t WHERE `id` = 3
query SELECT id AS `count`, n AS `select` FROM t WHERE id = 3
query SELECT mp.a, mp['a'] FROM t WHERE mp IS NOT NULL ORDER BY id LIMIT 5
query SELECT st.X FROM t WHERE id = 3
query SELECT q.x FROM (SELECT array(st, st) AS q FROM t WHERE id < 5)
query SELECT array(st, st).x FROM t WHERE id < 3 ORDER BY id
query SELECT q[0].x, q.y[1] FROM (SELECT id, array(st) AS q FROM t WHERE st IS NOT NULL) ORDER BY id LIMIT 2
query SELECT struct(id, n).id, named_struct('q', n).q FROM t WHERE id = 3
query SELECT (id, n) FROM t WHERE id = 3
query SELECT (SELECT struct(id, n) FROM t WHERE id = 3).n
query SELECT x0.n, y0.n FROM t x0 JOIN t y0 USING (id) WHERE id = 3
query SELECT * EXCEPT (a, `as`, mp, st, x) FROM (SELECT id, n FROM t WHERE id < 3) x0 JOIN (SELECT id, p FROM t) y0 USING (id) ORDER BY id
query SELECT * FROM (SELECT id, n FROM t WHERE id < 3) x0 JOIN (SELECT id, p FROM t) y0 USING (id) ORDER BY id
query SELECT x0.id, y0.id, id FROM (SELECT id FROM t WHERE id < 3) x0 FULL JOIN (SELECT id + 1 AS id FROM t WHERE id < 3) y0 USING (id) ORDER BY id
query SELECT * FROM (SELECT 1 AS k1, 2 AS v1) NATURAL FULL JOIN (SELECT 2L AS k1, 3 AS w1) ORDER BY k1
query SELECT * FROM (SELECT 1 AS k1) x0 JOIN (SELECT 1L AS k1) y0 USING (k1)
query SELECT * FROM (SELECT 1 AS k1) x0 FULL JOIN (SELECT 2L AS k1) y0 USING (k1) ORDER BY 1
query SELECT * FROM (SELECT '1' AS k1) x0 JOIN (SELECT 1 AS k1) y0 USING (k1)
query SELECT * FROM (SELECT 1.5 AS k1) x0 RIGHT JOIN (SELECT 1 AS k1) y0 USING (k1)
query SELECT count(*) FROM t x0, t y0 JOIN t z0 ON y0.id = z0.id WHERE x0.id = y0.id
query SELECT count(*) FROM t x0 JOIN t y0 ON x0.id = y0.id JOIN t z0 ON z0.id = x0.id AND z0.n = y0.n
query SELECT count(*) FROM t x0 LEFT JOIN t y0 ON x0.id = y0.id + 1 LEFT JOIN t z0 ON y0.id = z0.id + 1 WHERE z0.id IS NULL
query SELECT count(*) FROM t x0 JOIN t y0
query SELECT count(*) FROM t x0 JOIN t y0 ON x0.n > y0.n AND x0.g = y0.g
query SELECT count(*) FROM t x0 LEFT JOIN t y0 ON false
query SELECT count(y0.id) FROM t x0 LEFT JOIN t y0 ON x0.n = y0.n AND y0.b WHERE coalesce(y0.c, true)
query SELECT id FROM t ORDER BY id LIMIT 2 OFFSET 3
query SELECT id FROM t ORDER BY id OFFSET 46
query SELECT id FROM t ORDER BY id LIMIT 1 + 1
query SELECT id FROM t ORDER BY id LIMIT 0
query SELECT id FROM t ORDER BY id LIMIT ALL OFFSET 46
query SELECT id, n FROM t ORDER BY 2 DESC NULLS LAST, 1 LIMIT 5
query SELECT id FROM t ORDER BY n ASC NULLS LAST, p DESC NULLS FIRST, id LIMIT 8
query SELECT id FROM t ORDER BY s, id LIMIT 30
query SELECT id FROM t ORDER BY d DESC, id LIMIT 30
query SELECT id FROM t ORDER BY x, id LIMIT 30
query SELECT id FROM t ORDER BY b DESC, ts, id LIMIT 30
query SELECT DISTINCT b, c FROM t ORDER BY 1, 2
query SELECT DISTINCT n AS q FROM t ORDER BY q DESC LIMIT 2
query SELECT DISTINCT n FROM t ORDER BY p
query SELECT DISTINCT d FROM t ORDER BY d
query SELECT count(DISTINCT d), count(DISTINCT f), count(DISTINCT s) FROM t
query SELECT d, count(*) FROM t GROUP BY d ORDER BY d
query SELECT s, count(*) FROM t GROUP BY s ORDER BY s LIMIT 9
query SELECT CASE WHEN n > 0 THEN 'p' ELSE 'q' END AS k1, count(*) FROM t GROUP BY k1 ORDER BY k1
query SELECT n % 2, count(*) FROM t GROUP BY n % 2 ORDER BY 1
query SELECT n % 2 + 1, count(*) FROM t GROUP BY n % 2 ORDER BY 1
query SELECT date_trunc('YEAR', ts), count(*) FROM t GROUP BY 1 ORDER BY 1
query SELECT year(dt) AS y1, count(*) AS c1 FROM t GROUP BY year(dt) HAVING c1 > 1 ORDER BY y1
query SELECT st.x, count(*) FROM t GROUP BY st.x ORDER BY 1
query SELECT st, count(*) FROM t GROUP BY st ORDER BY st.x, st.y
query SELECT g, n, count(*) FROM t GROUP BY g, n HAVING count(*) > 1 AND g < 4 ORDER BY 1, 2
query SELECT g, sum(n) FILTER (WHERE b) AS q, sum(n) FILTER (WHERE NOT b) AS r, count(*) FILTER (WHERE n IS NULL) FROM t GROUP BY g ORDER BY g
query SELECT sum(n) FILTER (WHERE n > (SELECT avg(n) FROM t)) FROM t
query SELECT g, sum(n) * 100 / sum(sum(n)) OVER () FROM t GROUP BY g ORDER BY g
query SELECT g, rank() OVER (ORDER BY sum(n) DESC) FROM t GROUP BY g ORDER BY 2, 1
query SELECT id, sum(n) OVER (PARTITION BY g ORDER BY id) - lag(n, 1, 0) OVER (PARTITION BY g ORDER BY id) AS q FROM t ORDER BY id
query SELECT max(q) FROM (SELECT row_number() OVER (PARTITION BY g ORDER BY id) AS q FROM t)
query SELECT g, max(n) OVER (PARTITION BY g) AS q FROM t WHERE id % 6 = 0 ORDER BY g
query SELECT id FROM (SELECT id, dense_rank() OVER (ORDER BY n DESC NULLS LAST) AS q FROM t) WHERE q = 1 ORDER BY id
query SELECT max(n) + (SELECT min(n) FROM t) FROM t
query SELECT id, CASE WHEN n = (SELECT max(n) FROM t) THEN 'top' END AS q FROM t WHERE id < 9 ORDER BY id
query SELECT (SELECT count(*) FROM t y0 WHERE y0.g = x0.g) AS q, count(*) FROM t x0 GROUP BY g ORDER BY g
query SELECT * FROM (SELECT 1 AS q) WHERE q IN (SELECT NULL)
query SELECT 1 WHERE 1 NOT IN (SELECT NULL)
query SELECT 1 AS q WHERE NULL IN (SELECT 1)
query SELECT 1 AS q WHERE NULL NOT IN (SELECT 1 WHERE false)
query SELECT 1 IN (SELECT 1) AS q, 2 NOT IN (SELECT 1) AS r
query SELECT 1 + 2 * 3 % 4 - -5
query SELECT 2 + 3 || 4
query SELECT -2 * -3, - 2 - 3, -(-2)
query SELECT NOT true AND false, NOT (true AND false), true OR false AND false
query SELECT 1 = 1 = true, 1 < 2 = true
query SELECT NOT 1 = 2, NOT 1 IN (2), ! true
query SELECT 1 == 1, 1 <> 2, 1 != 2, NULL <=> NULL
query SELECT 5 / 2, 5 DIV 2, 5 % 2, -5 DIV 2, -5 % 2, 5 MOD 2
query SELECT 1 & 3 | 4, 6 ^ 3, ~5, 1 << 3, -16 >> 2, -16 >>> 28
query SELECT 1 | 2 & 3, 1 ^ 3 & 2
query SELECT 2 BETWEEN 1 AND 3 AND true, 2 NOT BETWEEN 1 AND 3 OR true
query SELECT 'a' || 'b' || 'c', 'a' || NULL, 1 || 2
query SELECT 'a' 'b', "a" "b", 'it''s', "q'q", r'\n', 'a\tb'
query SELECT 1L, 1S, 1Y, 1.0D, 1.0F, 1BD, 1.5BD, 1e2, 1e2BD, .5, 5.
query SELECT 0.10, 00.10, 1.0, 100., 1E0, 1e-2, 123456789012345678901234567890
query SELECT true, FALSE, NULL, X'0a', x'', DATE '2024-1-5', TIMESTAMP '2024-01-05 10:00', TIMESTAMP_NTZ '2024-01-05'
query SELECT 9223372036854775807, -9223372036854775808, 9223372036854775808, 2147483648
query SELECT 1 AS a, 'x' b, true `c d`
query SELECT CAST(1 AS STRING), STRING(1), 1::string, CAST('1' AS INT) + 1
query SELECT /* note */ id FROM t WHERE id = 3
query SELECT if(1 > 2, 'a', 'b') AS q, CASE 1 WHEN 1 THEN 'x' END, nvl(NULL, 2), coalesce(NULL, NULL, 3)
query SELECT typeof(1 + 1L), typeof(1.5 + 1), typeof(1 / 2), typeof(1.5 * 1.5), typeof(1e0 + 1.5), typeof(NULL), typeof(array(1, 2L))
query SELECT max(n), min(n) FROM (SELECT n FROM t UNION ALL SELECT NULL)
query SELECT t.* FROM (SELECT 1 AS q) t
query SELECT t2.q FROM (SELECT 1 AS q) t2
query SELECT t1.id FROM t t1, (SELECT max(id) AS m1 FROM t) q WHERE t1.id = q.m1
query SELECT id FROM t WHERE id IN (1, '2', 3.0) ORDER BY id
query SELECT id FROM t WHERE n > ANY (SELECT p FROM t) ORDER BY id
query SELECT id FROM t WHERE n >= ALL (SELECT n FROM t) ORDER BY id
query SELECT id FROM t WHERE EXISTS (SELECT * FROM t WHERE false)
query SELECT count(*) FROM t WHERE s = t2 OR s IS NULL AND t2 IS NULL
query SELECT count(*) FROM t WHERE b
query SELECT count(*) FROM t WHERE b = true AND NOT c
query SELECT count(*) FROM t WHERE n
query SELECT count(*) FROM t WHERE 'true'
query SELECT count(*) FROM t WHERE 1
query SELECT count(*) FROM t GROUP BY 'x'
query SELECT count(*) FROM t GROUP BY NULL
query SELECT count(*) FROM t GROUP BY 1
query SELECT n AS q FROM t GROUP BY 1 ORDER BY 1 LIMIT 2
query SELECT count(*) FROM t ORDER BY id
query SELECT n FROM t GROUP BY n ORDER BY p
query SELECT g, n FROM t GROUP BY g
query SELECT sum(g) FROM t GROUP BY sum(g)
query SELECT sum(max(n)) FROM t
query SELECT id FROM t WHERE max(n) > 1
query SELECT count(*) AS q, q + 1 AS r FROM t
query SELECT g, count(*) AS q, q * 2 AS r FROM t GROUP BY g HAVING r > 10 ORDER BY g
query SELECT id, row_number() OVER (ORDER BY id DESC) AS q, q + 1 AS r FROM t ORDER BY id LIMIT 2
query SELECT first(n) OVER (PARTITION BY g ORDER BY id) AS q, count(*) FROM t GROUP BY g, n, id ORDER BY g, id LIMIT 5
group sum(n + p) / nullif(count(n), 0)
group max(s) || min(s)
group max(CASE WHEN b THEN n END)
group count_if(NOT b)
group avg(CAST(n AS DECIMAL(5, 2)))
group sum(CAST(n AS FLOAT))
group sum(y) + sum(h)
group max(ts) - min(ts)
group count(a)
group count(st)
group size(collect_list(s))
group array_join(sort_array(collect_set(t2)), ',')
group concat_ws(',', sort_array(collect_list(t2)))
group percentile_cont(0.25) WITHIN GROUP (ORDER BY n)
group max(array(n, p)[0])
group sum(size(a))
group sum(CAST(b AS INT))
group round(avg(n), 1)
group min(length(s))
group max(named_struct('q', n, 'r', s)).r
group nth_value(n, 1)
query SELECT DISTINCT n AS q FROM t ORDER BY n
query SELECT DISTINCT n AS q FROM t ORDER BY q + 1
query SELECT DISTINCT n AS q FROM t ORDER BY n + 1
query SELECT DISTINCT t.n FROM t ORDER BY t.n
query SELECT DISTINCT n + 1 FROM t ORDER BY n + 1
query SELECT DISTINCT n + 1 AS q FROM t ORDER BY n + 1
query SELECT DISTINCT d FROM t ORDER BY t.d
query SELECT DISTINCT upper(t2) FROM t ORDER BY upper(t2)
query SELECT DISTINCT g, count(*) FROM t GROUP BY g ORDER BY count(*), g
query SELECT DISTINCT g, count(*) AS q FROM t GROUP BY g ORDER BY q, g
query SELECT DISTINCT g, count(*) AS q FROM t GROUP BY g ORDER BY max(n), g
query SELECT DISTINCT x0.id, x0.n FROM t x0 JOIN t y0 ON x0.id = y0.id ORDER BY x0.n, y0.id LIMIT 3
query SELECT DISTINCT x0.id, x0.n FROM t x0 JOIN t y0 ON x0.id = y0.id ORDER BY x0.n, x0.id LIMIT 3
query SELECT DISTINCT * FROM (SELECT n, p FROM t) ORDER BY p, n LIMIT 4
query SELECT DISTINCT st.x FROM t ORDER BY st.x
query SELECT DISTINCT st FROM t ORDER BY st.x, st.y
query SELECT g, EXISTS (SELECT 1 FROM t y0 WHERE y0.p = x0.g) AS q FROM t x0 GROUP BY g ORDER BY g
query SELECT g, g IN (SELECT y0.p FROM t y0 WHERE y0.id > x0.g) AS q FROM t x0 GROUP BY g ORDER BY g
query SELECT g, g IN (SELECT p FROM t) AS q FROM t x0 GROUP BY g ORDER BY g
query SELECT g, max((SELECT max(p) FROM t y0 WHERE y0.g = x0.g)) AS q FROM t x0 GROUP BY g ORDER BY g
query SELECT g, first((SELECT max(p) FROM t y0 WHERE y0.g = x0.g)) + 1 AS q FROM t x0 GROUP BY g ORDER BY g
query SELECT g, sum(n) + (SELECT max(p) FROM t y0 WHERE y0.g = x0.g) AS q FROM t x0 GROUP BY g ORDER BY g
query SELECT g, (SELECT max(p) FROM t) AS q FROM t x0 GROUP BY g ORDER BY g
query SELECT g FROM t x0 GROUP BY g HAVING (SELECT max(p) FROM t y0 WHERE y0.g = x0.g) > 3 ORDER BY g
query SELECT g FROM t x0 GROUP BY g ORDER BY (SELECT max(p) FROM t y0 WHERE y0.g = x0.g), g
query SELECT (SELECT count(*) FROM t y0 WHERE y0.g = x0.g) AS q, count(*) FROM t x0 GROUP BY q ORDER BY q
query SELECT (SELECT count(*) FROM t y0 WHERE y0.g = x0.g) AS q, count(*) FROM t x0 GROUP BY 1 ORDER BY q
query SELECT (SELECT max(y0.p) FROM t y0 WHERE y0.g = max(x0.n)) AS q FROM t x0
query SELECT count(*) FROM t x0 WHERE (SELECT max(p) FROM t y0 WHERE y0.g = x0.g) > 3
query SELECT id, (SELECT max(p) FROM t y0 WHERE y0.g > x0.g) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(p) FROM t y0 WHERE y0.g = x0.g AND y0.n < x0.n) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT p FROM t y0 WHERE y0.g = x0.g ORDER BY y0.id LIMIT 1) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(p + x0.n) FROM t y0 WHERE y0.g = x0.g) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(p) + x0.n FROM t y0 WHERE y0.g = x0.g) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT x0.n) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT count(*) FROM t y0 WHERE y0.g = x0.g OR y0.n = x0.n) AS q FROM t x0 ORDER BY id
query SELECT id FROM t x0 WHERE id = (SELECT max(id) FROM t y0 WHERE y0.g = x0.g) ORDER BY id
query SELECT id FROM t x0 WHERE n IN (SELECT max(n) FROM t y0 WHERE y0.g = x0.g) ORDER BY id
query SELECT id FROM t x0 WHERE n IN (SELECT p FROM t y0 WHERE y0.g = x0.g UNION SELECT 7) ORDER BY id
query SELECT id FROM t x0 WHERE EXISTS (SELECT 1 FROM t y0 WHERE y0.g = x0.g UNION ALL SELECT 1 FROM t z0 WHERE z0.n = x0.p) ORDER BY id LIMIT 3
query SELECT id FROM t x0 JOIN (SELECT g AS g1, max(n) AS m1 FROM t GROUP BY g) q ON x0.g = q.g1 AND x0.n = q.m1 ORDER BY id
query SELECT x0.id FROM t x0 JOIN t y0 ON x0.id = (SELECT max(id) FROM t) AND y0.id = x0.id
query SELECT x0.id FROM t x0 JOIN t y0 ON EXISTS (SELECT 1 FROM t z0 WHERE z0.id = x0.id) AND y0.id = x0.id ORDER BY 1 LIMIT 2
query SELECT x0.id FROM t x0 LEFT JOIN t y0 ON x0.id IN (SELECT p FROM t) AND y0.id = x0.id ORDER BY 1 LIMIT 2
query SELECT 1e2BD, 1e-2BD, 1.5e3BD, -1e2BD
query SELECT id, count(*) OVER (PARTITION BY (SELECT 1)) AS q FROM t ORDER BY id LIMIT 1
query SELECT id FROM t ORDER BY (SELECT 1), id LIMIT 1
query SELECT id, sum((SELECT 1)) OVER (ORDER BY id) AS q FROM t ORDER BY id LIMIT 2
query SELECT id FROM t QUALIFY max(n) OVER (PARTITION BY g) = n AND n > 0 ORDER BY id
query SELECT id, n FROM t QUALIFY n = (SELECT max(n) FROM t) AND row_number() OVER (ORDER BY id) > 0 ORDER BY id
query SELECT DISTINCT g, row_number() OVER (PARTITION BY g ORDER BY id) AS q FROM t ORDER BY q, g LIMIT 3
query SELECT DISTINCT g FROM t ORDER BY row_number() OVER (ORDER BY g)
query SELECT count(*) AS q FROM t UNION ALL SELECT count(*) FROM t WHERE b ORDER BY q
query SELECT id FROM t WHERE id < 2 UNION ALL SELECT id FROM t WHERE id < 2 ORDER BY id + 0
query SELECT id FROM t WHERE id < 2 UNION ALL SELECT id FROM t WHERE id < 2 ORDER BY n
query SELECT id AS q FROM t WHERE id < 2 UNION ALL SELECT id AS r FROM t WHERE id < 2 ORDER BY r
query SELECT g, n FROM t GROUP BY g, n ORDER BY sum(p), g, n LIMIT 5
query SELECT g FROM t GROUP BY g ORDER BY g + 1 DESC
query SELECT g + 1 AS q FROM t GROUP BY g ORDER BY g DESC
query SELECT g AS q FROM t GROUP BY g + 0 ORDER BY 1
query SELECT g FROM t GROUP BY g HAVING n > 1
query SELECT g, p FROM t GROUP BY g, upper(p)
query SELECT upper(s) FROM t GROUP BY s ORDER BY 1 LIMIT 4
query SELECT max(g) OVER (PARTITION BY g) FROM t GROUP BY g ORDER BY g
query SELECT max(n) OVER (PARTITION BY g) FROM t GROUP BY g
query SELECT t.g, count(*) FROM t GROUP BY g ORDER BY t.g
query SELECT g FROM t GROUP BY t.g ORDER BY g
query SELECT lower(upper(t2)) AS q, count(*) FROM t GROUP BY upper(t2) ORDER BY q
query SELECT count(*) FROM (SELECT DISTINCT * FROM (SELECT n, p FROM t))
query SELECT sum(DISTINCT n) + count(DISTINCT p) FROM t GROUP BY b ORDER BY 1
query SELECT b, n IS NULL AS q, count(*) FROM t GROUP BY b, n IS NULL ORDER BY 1, 2
query SELECT b, q, count(*) FROM (SELECT b, n IS NULL AS q FROM t) GROUP BY CUBE(b, q) ORDER BY 1, 2, 3
query SELECT b, grouping(b), count(*) FROM t GROUP BY ROLLUP(b) ORDER BY 2, 1
query SELECT coalesce(b, false) AS b, count(*) FROM t GROUP BY b ORDER BY 1, 2
query SELECT coalesce(b, false) AS q, count(*) FROM t GROUP BY q ORDER BY 1, 2
query SELECT id AS g, count(*) FROM t GROUP BY g ORDER BY 1 LIMIT 2
query SELECT x0.id, q.v FROM t x0, LATERAL (SELECT max(y0.n) + x0.n AS v FROM t y0 WHERE y0.g = x0.g) q ORDER BY x0.id
query SELECT x0.id, q.v FROM t x0, LATERAL (SELECT max(y0.n + x0.n) AS v FROM t y0 WHERE y0.g = x0.g) q ORDER BY x0.id
query SELECT x0.id, q.v FROM t x0, LATERAL (SELECT y0.n + x0.n AS v FROM t y0 WHERE y0.id = x0.n) q ORDER BY x0.id
query SELECT id, (SELECT y0.n + x0.n FROM t y0 WHERE y0.id = x0.n) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(p) FROM t y0 WHERE y0.g = x0.g HAVING max(p) > x0.n) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(p) FROM t y0 GROUP BY y0.g HAVING y0.g = x0.g) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT count(*) FROM t y0 WHERE y0.g = x0.g GROUP BY x0.n) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(x0.n) FROM t y0) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(y0.n) FROM t y0 ORDER BY x0.n) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT DISTINCT y0.g + x0.g FROM t y0 WHERE y0.g = x0.g) AS q FROM t x0 ORDER BY id
query SELECT id FROM t x0 WHERE EXISTS (SELECT max(y0.n + x0.n) FROM t y0) ORDER BY id LIMIT 2
query SELECT id FROM t x0 WHERE n IN (SELECT max(y0.n) + x0.g FROM t y0) ORDER BY id
query SELECT id FROM t x0 WHERE n IN (SELECT y0.n + x0.g FROM t y0) ORDER BY id
query SELECT id, (SELECT max(y0.n) FROM t y0 JOIN t z0 ON y0.id = z0.id AND z0.g = x0.g) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(y0.n) FROM t y0 LEFT JOIN t z0 ON y0.id = z0.id AND z0.g = x0.g) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT sum(n) OVER (ORDER BY x0.id) FROM t y0 WHERE y0.id = x0.id) AS q FROM t x0 ORDER BY id
query SELECT id FROM t x0 ORDER BY EXISTS (SELECT 1 FROM t y0 WHERE y0.p = x0.n), id LIMIT 3
query SELECT id FROM t x0 ORDER BY (SELECT max(p) FROM t y0 WHERE y0.g = x0.g), id LIMIT 3
query SELECT g FROM t x0 GROUP BY g ORDER BY (SELECT max(p) FROM t), g LIMIT 3
query SELECT id FROM t x0 JOIN t y0 ON x0.id = y0.id ORDER BY id
query SELECT id, (SELECT v FROM (SELECT max(y0.n) AS v FROM t y0 WHERE y0.g = x0.g) q) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT max(v) FROM (SELECT y0.n + x0.n AS v FROM t y0 WHERE y0.g = x0.g) q) AS q FROM t x0 ORDER BY id
query SELECT id, (SELECT x1 FROM t y0 LATERAL VIEW explode(y0.a) v AS x1 WHERE y0.id = x0.id LIMIT 1) AS q FROM t x0 WHERE id < 3 ORDER BY id
query SELECT id, (SELECT max(x1) FROM (SELECT explode(x0.a) AS x1)) AS q FROM t x0 WHERE id < 12 ORDER BY id
query SELECT id, (SELECT max(x1) FROM explode(x0.a) v(x1)) AS q FROM t x0 WHERE id < 12 ORDER BY id
query SELECT g, sum((SELECT max(p) FROM t y0 WHERE y0.g = x0.g)) AS q FROM t x0 GROUP BY g ORDER BY g
query SELECT g, count(*) FROM t x0 GROUP BY g, (SELECT max(p) FROM t y0 WHERE y0.g = x0.g) ORDER BY g
query SELECT max(n) FROM t x0 GROUP BY EXISTS (SELECT 1 FROM t y0 WHERE y0.p = x0.n) ORDER BY 1
query SELECT sum(n) OVER (PARTITION BY (SELECT max(p) FROM t y0 WHERE y0.g = x0.g)) AS q FROM t x0 ORDER BY id LIMIT 2
query SELECT id, CASE WHEN id < 3 THEN (SELECT max(p) FROM t y0 WHERE y0.g = x0.g) ELSE 0 END AS q FROM t x0 ORDER BY id
query SELECT id, coalesce((SELECT max(p) FROM t y0 WHERE y0.g = x0.g), (SELECT min(n) FROM t)) AS q FROM t x0 ORDER BY id
query SELECT x0.id FROM t x0 JOIN t y0 ON y0.id = (SELECT max(z0.id) FROM t z0 WHERE z0.g = x0.g) ORDER BY 1 LIMIT 3
query SELECT id FROM t x0 WHERE (SELECT count(*) FROM t y0 WHERE y0.n = x0.p) = 0 ORDER BY id
query SELECT id FROM t x0 WHERE n > ALL (SELECT 1)
query SELECT id FROM (SELECT id, n FROM t) x0 WHERE EXISTS (SELECT 1 FROM t WHERE t.p = n) ORDER BY id
query SELECT id FROM (SELECT id, n AS n9 FROM t) x0 WHERE EXISTS (SELECT 1 FROM t WHERE p = n9) ORDER BY id
query WITH q AS (SELECT id, n AS n9 FROM t) SELECT id, (SELECT count(*) FROM q y0 WHERE y0.n9 = q.n9) AS c9 FROM q ORDER BY id
row ts < tn
row coalesce(tn, ts)
row greatest(ts, tn)
row if(b, ts, tn) - ts
row array(ts, tn)
row ts IN (tn, tu)
row tn BETWEEN ts AND tu
row nullif(ts, tn)
row datediff(ts, tn)
row try_cast(s AS TIMESTAMP) = ts
row s = ts
row dt = tn
row dt IN (ts, tn)
row n = b
row s = x
row x || s
row concat(x, x)
row substring(x, 1, 2)
row x IN (X'61', 'abc')
row m = s
row m + s
row n || m
row f + m
row f * n
row d % 3
row d div 2
row n div 0
row try_divide(m, 0)
row m / n
row n / m
row m % n
row -w
row w * 1
row w + 1
row w / 7
row round(w, 2)
row w = m
row CAST(d AS DECIMAL(38, 18))
row CAST(s AS DECIMAL(10, 2))
row CAST(number AS DOUBLE) + 1
row CAST(n AS BOOLEAN) = b
row CAST(n AS DATE)
row CAST(x AS INT)
row CAST(n AS BINARY)
row CAST(`as` AS ARRAY<DATE>)
row CAST(st AS STRUCT<p1: BIGINT, q1: STRING>)
row TRY_CAST(a AS ARRAY<STRING>)
row h * i
row i + 1L
row y & h
row l | i
row i ^ y
row shiftleft(y, 2)
row shiftright(l, 3)
row ~h
row round(d, 1)
row greatest(y, h, i)
row least(f, d, n)
row conv('ff', 16, 10)
row width_bucket(n, 0, 10, 5)
row isnan(d) OR isnan(f)
row nanvl(d, 1)
row hash(n, s, m)
row coalesce(n, s)
row coalesce(m, s)
row coalesce(dt, s)
row nvl(n, 1.5)
row nvl2(n, s, 'x')
row if(n > 1, m, d)
row if(b, NULL, n)
row iff(b, 1, 2)
row decode(t2, 'a', 1, 'b', 2, 3)
row case when n is null then 'z' when n > 0 then s end
row s between 'a' and 'b'
row s not in ('a', NULL)
row lower(s) = 'ab'
row trim(s) = ''
row s >= t2
row s || '' = s
row replace(s, t2, '*')
row split(s, t2)
row substring_index(s, ',', n)
row space(p) || '|'
row translate(s, t2, 'zz')
row overlay('abc', 'Z', 2)
row format_string('%d|%s', n, s)
row char_length(s) - octet_length(s)
row to_json(struct(n, s))
row from_json(js, 'a INT').a
row json_array_length(js)
row year(ts) * 100 + month(ts)
row date_format(dt, 'dd.MM.yyyy')
row date_add(dt, p)
row dt + p
row dt - du > INTERVAL 1 DAY
row trunc(dt, 'YEAR')
row date_trunc('MONTH', ts)
row extract(QUARTER FROM dt)
row extract(EPOCH FROM ts)
row make_timestamp(2024, p, 1, 0, 0, n)
row day > dt
row date(ts) = dt
row hour(ts) BETWEEN 8 AND 17
row timestamp_millis(l)
row ts + INTERVAL 1 DAY > tu
row size(a) > 0
row mp['a'] > 1
row array_contains(`as`, t2)
row array_size(array(n, p))
row array_insert(a, 1, 0)
row array_prepend(a, n)
row struct(n, s).s
row st.y || s
row st IS NULL
row a IS NOT NULL AND a[0] = 1
row exists(a, v -> v = p)
row aggregate(a, n, (acc, v) -> acc + v)
row transform(`as`, v -> upper(v))
row filter(mp, v -> v)
row typeof(m + n)
row typeof(coalesce(n, m))
row typeof(CASE WHEN b THEN n ELSE d END)
row typeof(array(n, l))
row typeof(m / n)
row current_date() > dt
row (n > 1) = b
row NOT (n > 1 AND b)
row n > 1 XOR b
row n IS DISTINCT FROM p
row NOT n <=> p
row n = ANY (array(1, 2))
row decode(t2, 'a', 1.5, 2)
row decode(t2, 'a', 1, NULL)
row decode(t2, 'a', n, 0)
row starts_with(s, 'a')
row decode(t2, 'a', 1)
""".replace("<offset>", "X" * 3)
"""One in a line, behind its kind."""


def _split(text: str) -> Iterator[str]:
    for line in text.strip().splitlines():
        # "n | 4" is a bar with spaces around it, and "s || t2" two bars
        yield from (part.strip() for part in re.split(r"(?<! )(?<!\|)\|(?! )(?!\|)", line))


def texts() -> list[tuple[str, str]]:
    """All texts, each with its kind."""
    found: list[tuple[str, str]] = []
    for operator, (left, right) in itertools.product(("+", "-", "*", "/", "div", "%"), _pairs()):
        found.append(("row", f"{left} {operator} {right}"))
    for operator, (left, right) in itertools.product(("=", "<", ">=", "<>", "<=>"), _pairs()):
        found.append(("row", f"{left} {operator} {right}"))
    kinds = (
        "TINYINT",
        "INT",
        "BIGINT",
        "DOUBLE",
        "DECIMAL(8, 1)",
        "STRING",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
    )
    columns = ("y", "i", "l", "d", "f", "m", "w", "number", "day", "b", "dt", "ts", "tn")
    found += [("row", f"CAST({name} AS {kind})") for name in columns for kind in kinds]
    found += [("row", f"TRY_CAST({name} AS {kind})") for name in ("number", "day", "l", "d") for kind in kinds]
    numeric = ("abs", "ceil", "floor", "round", "sign", "sqrt", "negative", "bround")
    found += [("row", f"{name}({column})") for name in numeric for column in NUMBERS]
    anything = ("hash", "xxhash64", "isnull", "isnotnull")
    found += [("row", f"{name}({column})") for name in anything for column in map(_named, _COLUMNS)]
    ordered = [name for name, (kind, _) in _COLUMNS.items() if not pa.types.is_nested(kind)]
    found += [("row", f"{name}({column}, {column})") for name in ("coalesce", "least") for column in ordered]
    found += [("row", f"CASE WHEN b THEN {column} END") for column in map(_named, _COLUMNS)]
    found += [("group", f"{name}({column})") for name in ("min", "max", "count", "first") for column in ordered]
    found += [("group", f"{name}({column})") for name in ("sum", "avg", "stddev_samp") for column in NUMBERS]
    parts = ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear", "last_day")
    found += [("row", f"{name}({column})") for name in parts for column in ("dt", "ts", "tn")]
    found += [("row", text) for text in _split(ROW)]
    found += [("group", text) for text in _split(GROUP)]
    found += [("window", f"{text} {_OVER}") for text in _split(_WINDOWED)]
    found += [("window", text) for text in _split(WINDOW)]
    found += [("query", text) for text in _split(QUERY)]
    for line in ALSO.strip().splitlines():
        kind, _, text = line.partition(" ")
        found.append((kind, text))
    return list(dict.fromkeys(found))


def _named(column: str) -> str:
    return f"`{column}`" if column == "as" else column


def _pairs() -> list[tuple[str, str]]:
    others = [
        ("i", "2"),
        ("l", "3"),
        ("d", "0.5e0"),
        ("m", "1.5"),
        ("p", "0"),
        ("n", "'1'"),
        ("dt", "du"),
        ("ts", "tu"),
    ]
    pairs = [
        *(("y", "y"), ("y", "h"), ("i", "j"), ("i", "l"), ("l", "k"), ("n", "p"), ("i", "d"), ("l", "d"), ("f", "f")),
        *(("f", "d"), ("d", "e"), ("m", "m"), ("m", "o"), ("o", "w"), ("w", "w"), ("m", "i"), ("m", "l"), ("m", "d")),
    ]
    return pairs + others


def query(kind: str, text: str, ids: Sequence[int] | None = None) -> str:
    """The whole query of a text: with ``ids``, of these rows or groups alone."""
    if kind == "query":
        return text
    key = "g" if kind == "group" else "id"
    where = "" if ids is None else f" WHERE {key} IN ({', '.join(map(str, ids))})"
    if kind == "group":
        return f"SELECT g, {text} FROM t{where} GROUP BY g"
    return f"SELECT id, {text} FROM t{where}"
