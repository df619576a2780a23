"""Optimisers; one file each."""
