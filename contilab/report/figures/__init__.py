"""Figures of a report: vector graphics, one function per figure."""
