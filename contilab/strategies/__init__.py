"""Continual-learning methods; one file each."""
