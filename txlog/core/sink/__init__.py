"""Durable exactly-once for any engine: sink, staging, recovery."""
