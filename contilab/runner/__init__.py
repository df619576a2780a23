"""Claim, execute, publish."""
