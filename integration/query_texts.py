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
