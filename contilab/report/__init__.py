"""Reports: tables, figures and one page, read from a store. `load` is the door for notebooks."""

from contilab.report.load import load

__all__ = ["load"]
