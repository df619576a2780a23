"""Measurements of training speed on this machine."""
