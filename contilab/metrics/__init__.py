"""Metrics: pure functions of records."""
