"""Mirrors: Delta tables that follow the tables of a database, each change exactly once.

In: a PostgreSQL database (`txlog.mirror.postgres`). Out: tables that equal its own. ``docs/mirror.md`` says what that
costs and promises.
"""
