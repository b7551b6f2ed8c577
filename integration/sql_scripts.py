"""Scripts of SQL that Spark's Delta and txlog both run, for `test_spark_sql`.

In: nothing. Out: `SCRIPTS`, by name: statements that end with a semicolon. Delta's documented statements are among
them, on tables of our own. A statement that begins with ``--refused`` is one that both refuse.
"""

from __future__ import annotations

__all__ = ["SCRIPTS", "SHORT"]

SHORT = (("dedup", "duckdb"),)
"""The scripts that `make test` runs."""

SCRIPTS = {
    "rows": """
create table people (id int, first string, last string, born timestamp, salary int) using delta;
insert into people values (1, 'Ann', 'Lee', timestamp '1980-02-03 00:00:00', 100), (2, 'Bob', null, null, 50);
insert into people (last, id) values ('Ray', 3);
insert into people by name select 4 as id, 'Dan' as first;
select * from people order by id;
select count(*) as n, sum(salary) as total, max(first) as last from people;
update people set salary = salary + 10 where first = 'Ann';
update people p set p.salary = 7, last = upper(p.first) where p.salary is null;
update people set first = 'x', last = null;
select id, first, last, salary from people order by id;
delete from people where id in (1, 3);
delete from people where salary between 100 and 200 or born is not null;
select id from people order by id;
delete from people;
select count(*) from people;
describe history people;
""",
    "types": """
create table v (a tinyint, b smallint, c int, d bigint, e float, f double, g decimal(12, 3), h string, i boolean,
 j date, k timestamp, l timestamp_ntz, m binary) using delta;
insert into v values (1, 2, 3, 4, 5.5, 6.5, 7.125, 'h', true, date '2026-01-02', timestamp '2026-01-02 03:04:05',
 timestamp_ntz '2026-01-02 03:04:05.678', X'0102');
insert into v values (null, null, null, null, null, null, null, null, null, null, null, null, null);
insert into v (a, d, f, g, h) values (1L, 2Y, 3, 4, 5);
insert into v (c, d, j) values ('12', '-7', '2026-03-04');
insert into v (k, l) select '2026-01-01 10:00:00', '2026-01-01 10:00:00';
insert into v (g) values (1.23456);
--refused insert into v (a) values (300);
--refused insert into v (c) values ('twelve');
select * from v order by c, d, g, k;
update v set j = '2026-12-31', g = 1.5, c = '9' where a = 1;
select a, c, g, j from v order by a, c, g, j;
create table n (a array<int>, m map<string, int>, s struct<x: int, y: struct<z: string>>) using delta;
insert into n values (array(1, 2), map('k', 1), named_struct('x', 1, 'y', named_struct('z', 'deep')));
insert into n values (array(), null, null);
select size(a), m['k'], s.x, s.y.z from n order by s.x;
update n set s.x = 5, s.y.z = 'changed' where s.x = 1;
select s.x, s.y.z from n order by s.x;
""",
    "merge": """
create table t (id int, n int, note string) using delta;
insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, 40, 'd');
create table s (id int, n int, op string) using delta;
insert into s values (1, 11, 'u'), (2, 22, 'd'), (5, 55, 'i'), (6, 66, 'x');
merge into t using s on t.id = s.id when matched and s.op = 'd' then delete
 when matched then update set n = s.n, note = concat(t.note, s.op)
 when not matched and s.op = 'i' then insert (id, n) values (s.id, s.n);
select * from t order by id, n;
merge into t as x using (select id, n * 2 as n, op as note from s) as y on x.id = y.id when matched then update set *
 when not matched then insert *;
select * from t order by id, n;
merge into t using s on t.id = s.id when not matched by source and t.n > 35 then update set t.n = 0
 when not matched by source then delete;
select * from t order by id, n;
merge into t using (select 1 as id union all select 1) s on t.id = s.id when matched then delete;
insert into t values (2, 1, 'x');
--refused merge into t using (select 2 as id, 1 as n union all select 2, 2) s on t.id = s.id
 when matched then update set n = s.n;
merge into t using s on false when not matched then insert (id, n, note) values (s.id + 100, s.n, 'new');
select * from t order by id, n;
merge with schema evolution into t using (select 2 as id, 7 as n, 'z' as note, true as flag) s on t.id = s.id
 when matched then update set * when not matched then insert *;
select * from t order by id, n;
describe history t;
""",
    "overwrites": """
create table sales (id int, day date, amount double) using delta partitioned by (day);
insert into sales values (1, date '2026-01-01', 1), (2, date '2026-01-01', 2), (3, date '2026-01-02', 3);
insert into sales values (4, date '2026-01-03', 4);
show partitions sales;
insert into sales replace where day = '2026-01-01' select 9, date '2026-01-01', 9.5;
select * from sales order by id;
--refused insert into sales replace where day = '2026-01-01' select 9, date '2026-01-02', 9.5;
insert into sales replace where day >= '2026-01-02' and id > 0
 values (5, date '2026-01-05', 5), (6, date '2026-01-06', 6);
select * from sales order by id;
insert overwrite sales select id + 1, day, amount from sales where id = 9;
select * from sales order by id;
insert overwrite table sales (id, day) values (1, date '2026-02-01');
select * from sales order by id;
truncate table sales;
select count(*) from sales;
describe history sales;
""",
    "definitions": """
create table t (id int not null comment 'key', name string) using delta comment 'all of it' tblproperties ('a.b' = 'c');
describe t;
insert into t values (1, 'x');
--refused insert into t values (null, 'x');
alter table t add columns (more int comment 'm', place struct<city: string>);
alter table t add column (z string first, y string after id);
alter table t add columns (place.zip string);
describe t;
alter table t alter column name comment 'the name';
alter table t alter column id drop not null;
insert into t (name) values ('null key');
alter table t alter column more first;
alter table t alter column y after name;
alter table t change column y comment 'why';
describe t;
alter table t set tblproperties ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2',
 'delta.minWriterVersion' = '5');
alter table t rename column name to title;
alter table t rename column place.city to town;
alter table t drop column more;
alter table t drop columns (y, z);
describe t;
select * from t order by id;
--refused alter table t drop column absent;
--refused alter table t add columns (id int);
comment on table t is 'another text';
alter table t set tblproperties ('team' = 'me', 'delta.appendOnly' = 'false');
alter table t unset tblproperties ('team');
describe history t;
""",
    "constraints": """
create table t (id int, born date) using delta;
insert into t values (1, date '2000-01-01');
alter table t add constraint adult check (born < '2010-01-01');
--refused insert into t values (2, date '2020-01-01');
--refused update t set born = '2020-01-01';
insert into t values (3, date '1999-01-01');
--refused alter table t add constraint big check (id > 100);
alter table t add constraint positive check (id > 0);
--refused merge into t using (select 0 as id) s on t.id = s.id when not matched then insert (id) values (s.id);
alter table t drop constraint adult;
insert into t values (4, date '2020-01-01');
--refused alter table t drop constraint adult;
select * from t order by id;
describe history t;
""",
    "generated": """
create table t (id bigint generated always as identity, at timestamp, day date generated always as (cast(at as date)),
 n int default 7) using delta tblproperties ('delta.feature.allowColumnDefaults' = 'supported');
insert into t (at) values (timestamp '2026-01-02 03:04:05');
insert into t (at, n) values (timestamp '2026-01-03 03:04:05', 8), (timestamp '2026-01-04 00:00:00', default);
--refused insert into t (id, at) values (7, timestamp '2026-01-03 03:04:05');
--refused insert into t (at, day) values (timestamp '2026-01-03 03:04:05', date '2026-01-04');
insert into t (at, day) values (timestamp '2026-01-05 03:04:05', date '2026-01-05');
select at, day, n from t order by at;
select count(distinct id) from t;
update t set at = timestamp '2026-02-01 00:00:00' where n = 8;
update t set n = default where n = 8;
select at, day, n from t order by at;
alter table t alter column n set default 9;
insert into t (at) values (timestamp '2026-01-06 00:00:00');
alter table t alter column n drop default;
insert into t (at) values (timestamp '2026-01-07 00:00:00');
select day, n from t order by day;
create table b (id bigint generated by default as identity (start with 100 increment by 10), s string) using delta;
insert into b (s) values ('a');
insert into b values (500, 'b');
alter table b alter column id sync identity;
insert into b (s) values ('c');
select min(id), count(*), max(id) > 500 from b;
""",
    "creation": """
create table a (id int, s string) using delta;
--refused create table a (id int) using delta;
create table if not exists a (other int) using delta;
describe a;
insert into a values (1, 'x'), (2, 'y'), (3, null);
create table b using delta as select id, upper(s) as s, id * 2 as twice from a where id < 3;
describe b;
select * from b order by id;
create table c using delta partitioned by (s) as select * from a;
show partitions c;
create table d (id int, p int) using delta cluster by (p);
insert into d values (1, 1), (2, 2);
create table e using delta cluster by (id) as select * from d;
create or replace table b using delta as select 'new' as only;
select * from b;
create or replace table f using delta as select 1 as x, cast(null as date) as y;
describe f;
create table g (id int) using delta tblproperties ('delta.appendOnly' = 'true');
insert into g values (1);
--refused delete from g;
show columns in a;
drop table a;
--refused select * from a;
--refused drop table a;
drop table if exists a;
create table a (id bigint) using delta;
describe a;
""",
    "time travel": """
create table t (id int, v string) using delta;
insert into t values (1, 'one');
insert into t values (2, 'two');
update t set v = 'ONE' where id = 1;
delete from t where id = 2;
select * from t version as of 1 order by id;
select * from t version as of 3 order by id;
select count(*) from t version as of 0;
select a.id, a.v as now, b.v as before from t a join t version as of 2 b on a.id = b.id;
--refused select * from t version as of 99;
insert into t select * from t version as of 2 where id = 2;
merge into t using (select * from t version as of 1) s on t.id = s.id when matched then update set v = s.v;
select * from t order by id;
restore table t to version as of 2;
select * from t order by id;
--refused restore table t to version as of 99;
describe history t;
""",
    "change feed": """
create table t (id int, v string) using delta tblproperties (delta.enableChangeDataFeed = true);
insert into t values (1, 'a'), (2, 'b');
update t set v = 'B' where id = 2;
delete from t where id = 1;
select id, v, _change_type, _commit_version from table_changes('t', 0) order by _commit_version, id, _change_type;
select id, _change_type from table_changes('t', 2, 2) order by _change_type;
select count(*) from table_changes('t', 3, 3) c where c.id = 1;
merge into t using (select 2 as id, 'm' as v union all select 3, 'n') s on t.id = s.id when matched then update set *
 when not matched then insert *;
select id, v, _change_type from table_changes('t', 4) order by id, _change_type;
create table plain (id int) using delta;
--refused select * from table_changes('plain', 0);
""",
    "queries": """
create table o (id int, customer int, amount int, day date) using delta partitioned by (day);
insert into o values (1, 1, 10, date '2026-01-01'), (2, 1, 20, date '2026-01-02'), (3, 2, 30, date '2026-01-02');
create table c (id int, name string) using delta;
insert into c values (1, 'Ann'), (2, 'Bob'), (3, 'Cid');
select c.name, sum(o.amount) as total from o join c on o.customer = c.id group by c.name order by total desc;
select name from c where not exists (select 1 from o where o.customer = c.id);
select c.name, o.id from c left join o on o.customer = c.id order by c.name, o.id;
with big as (select * from o where amount > 15), named as (select * from big b join c on b.customer = c.id)
 select count(*) from named;
select day, count(*) as n from o group by day having count(*) > 1;
select id, row_number() over (partition by customer order by amount desc) as r from o order by id;
select case when amount > 15 then 'big' else 'small' end as size, count(*) from o group by 1 order by 1;
select distinct customer from o union select id from c order by 1;
select id from o where day = '2026-01-02' and amount in (select max(amount) from o);
select coalesce(max(amount), 0), min(day), avg(amount) from o where id > 100;
select substring(name, 1, 2), length(name), concat(name, '!') from c order by name;
select * from (values (1, 'a'), (2, 'b')) as v(n, s) order by n;
select date_add(day, 1), year(day), month(day) from o order by id;
select id from o order by amount desc limit 2;
create table totals using delta as select customer, sum(amount) as total, count(*) as n from o group by customer;
describe totals;
insert into totals select id, 0, 0 from c where id not in (select customer from o);
select * from totals order by customer;
""",
    "upkeep": """
create table t (id int, p int, s string) using delta partitioned by (p);
insert into t values (1, 1, 'a');
insert into t values (2, 1, 'b');
insert into t values (3, 2, 'c');
insert into t values (4, 2, 'd');
optimize t where p = 1;
optimize t;
optimize t zorder by (id);
select * from t order by id;
create table v (id int, s string) using delta tblproperties ('delta.enableDeletionVectors' = 'true');
insert into v select id, s from t;
delete from v where id = 2;
select * from v order by id;
reorg table v apply (purge);
select * from v order by id;
vacuum v;
vacuum t retain 200 hours dry run;
create table c (id int, s string) using delta cluster by (id);
insert into c select id, s from t;
optimize c;
alter table c cluster by (s);
alter table c cluster by none;
describe history c;
describe history v;
""",
    "clones": """
create table source (id int, p string) using delta partitioned by (p) tblproperties ('delta.appendOnly' = 'false');
insert into source values (1, 'a'), (2, 'b');
insert into source values (3, 'c');
create table shallow_copy shallow clone source;
select * from shallow_copy order by id;
create table old_copy shallow clone source version as of 1;
select * from old_copy order by id;
insert into shallow_copy values (4, 'd');
delete from shallow_copy where id = 1;
select * from shallow_copy order by id;
select * from source order by id;
describe shallow_copy;
--refused create table shallow_copy shallow clone source;
create table if not exists shallow_copy shallow clone source;
select * from shallow_copy order by id;
create table with_property shallow clone source tblproperties ('delta.logRetentionDuration' = 'interval 40 days');
select count(*) from with_property;
""",
    "wider types": """
create table t (id int, price float, s string) using delta tblproperties ('delta.enableTypeWidening' = 'true');
insert into t values (1, 1.5, 'x');
alter table t alter column id type bigint;
insert into t values (3000000000, 2.5, 'y');
alter table t alter column price type double;
--refused alter table t alter column id type int;
--refused alter table t alter column s type int;
select * from t order by id;
describe t;
alter table t change column id id bigint comment 'wide';
describe t;
""",
    "statements with subtle words": """
create table `select` (`from` int, `two words` string, `group` int) using delta tblproperties
 ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5');
insert into `select` values (1, 'semi; colon', 2), (2, 'it\\'s -- no comment', 3);
select `from`, `two words` from `select` where `group` > 2;
update `select` set `two words` = "double 'quoted'", `group` = `group` + `from` where `from` = 1 -- a comment; with one
;
/* another; */ select `two words`, `group` from `select` order by `from`;
delete from `select` s where s.`from` = 1 and s.`two words` like '%quoted%';
select count(*) from `select`;
merge into `select` as t using (select 2 as `from`, 'set' as `two words`, 1 as `group`) as `when`
 on t.`from` = `when`.`from` when matched then update set t.`two words` = `when`.`two words`;
select * from `select`;
alter table `select` rename column `two words` to `matched then`;
describe `select`;
""",
    "inventory": """
create table stock (sku int, name string, amount int, updated date) using delta;
insert into stock values (1, 'bolt', 100, date '2026-01-01'), (2, 'nut', 0, date '2026-01-01');
create table moves (sku int, delta int, day date) using delta;
insert into moves values (1, -20, date '2026-01-02'), (1, 5, date '2026-01-02'), (3, 40, date '2026-01-02');
merge into stock using (select sku, sum(delta) as delta, max(day) as day from moves group by sku) m on stock.sku = m.sku
 when matched then update set amount = stock.amount + m.delta, updated = m.day
 when not matched then insert (sku, name, amount, updated) values (m.sku, 'unknown', m.delta, m.day);
select * from stock order by sku;
delete from moves where day < '2026-02-01';
insert into moves select sku, -amount, date '2026-02-01' from stock where amount > 50;
merge into stock t using moves s on t.sku = s.sku when matched and t.amount + s.delta <= 0 then delete
 when matched then update set amount = t.amount + s.delta;
select sku, amount from stock order by sku;
update stock set amount = case when amount < 1 then null else amount end, name = coalesce(nullif(name, 'unknown'), '?');
select sku, name, amount from stock order by sku;
delete from stock where amount is null and not name = 'bolt';
select sku, name from stock order by sku;
describe history stock;
""",
    "slowly changing": """
create table customers (id int, address string, current boolean, since date, until date) using delta;
insert into customers values (1, 'old st', true, date '2020-01-01', null),
 (2, 'same st', true, date '2020-01-01', null);
create table updates (id int, address string, since date) using delta;
insert into updates values (1, 'new st', date '2026-01-01'), (3, 'first st', date '2026-01-01');
merge into customers using (
 select updates.id as key, updates.* from updates
 union all
 select null as key, updates.* from updates join customers on updates.id = customers.id
  where customers.current = true and updates.address <> customers.address) staged
 on customers.id = staged.key
 when matched and customers.current = true and customers.address <> staged.address
  then update set current = false, until = staged.since
 when not matched then insert (id, address, current, since, until)
  values (staged.id, staged.address, true, staged.since, null);
select * from customers order by id, since;
select count(*) from customers where current;
""",
    "dedup": """
create table logs (id int, day date, body string) using delta partitioned by (day);
insert into logs values (1, date '2026-01-01', 'a'), (2, date '2026-01-02', 'b');
merge into logs using (select 2 as id, date '2026-01-02' as day, 'dup' as body union all
 select 3, date '2026-01-03', 'c') n on logs.id = n.id and logs.day > date '2026-01-01'
 when not matched and n.day > date '2026-01-01' then insert *;
select * from logs order by id;
merge into logs t using (select 1 as id, date '2026-01-01' as day, 'moved' as body) s on t.id = s.id
 when matched then update set day = date '2026-03-01', body = s.body;
select * from logs order by id;
show partitions logs;
update logs set day = '2026-04-01' where day < '2026-02-01';
show partitions logs;
delete from logs where day = '2026-04-01';
select * from logs order by id;
""",
    "nulls": """
create table t (a int, b string) using delta;
insert into t values (1, null), (null, 'x'), (null, null);
delete from t where a > 0 and b = 'x';
select count(*) from t;
delete from t where not (a = 1);
select count(*) from t;
update t set b = 'set' where a is null and b <=> null;
select * from t order by a, b;
merge into t using (select cast(null as int) as a, 'm' as b) s on t.a = s.a when matched then delete
 when not matched then insert *;
select * from t order by a, b;
merge into t using (select cast(null as int) as a) s on t.a <=> s.a and t.b = 'm' when matched then delete;
select * from t order by a, b;
select count(a), count(b), count(*) from t;
""",
    "structs": """
create table t (id int, s struct<a: int, b: struct<c: string, d: int>>, l array<struct<x: int>>) using delta;
insert into t values (1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 2)), array(named_struct('x', 7)));
insert into t (id) values (2);
update t set s.b.c = 'y' where id = 1;
select id, s.a, s.b.c, s.b.d, l[0].x from t order by id;
alter table t add columns (s.b.e string);
insert into t (id, s) values (3, named_struct('a', 3, 'b', named_struct('c', 'z', 'd', 3, 'e', 'new')));
select id, s.b.e from t order by id;
merge into t using (select 1 as id, 9 as a) q on t.id = q.id when matched then update set s.a = q.a;
select id, s.a, s.b.c from t order by id;
update t set s.b = null, s.a = s.a + 1 where id = 3;
update t set s.a = 5 where id = 2;
select id, s.a, s.b.c, s is null, s.b is null from t order by id;
describe t;
""",
}
