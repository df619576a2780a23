"""How numbers are written for people, by the unit of their metric."""

COUNTED = ("samples", "steps", "operations", "runs", "parameters", "bytes")
EXACT = 2**53  # from here on a float does not tell one whole number from the next
SUBSCRIPTS = {"seconds": "s", "steps per second": "/s"}


def number(value: float, unit: str) -> str:
    """Return *value* in its *unit*: four decimals for fractions, units for bytes and times, whole counts with spaces.

    >>> number(0.80667, "fraction"), number(-0.12, "difference"), number(1913640, "bytes")
    ('0.8067', '-0.1200', '1.8 MiB')
    >>> number(12.345, "seconds"), number(12000, "samples"), number(1.5e12, "operations"), number(2.5, "steps")
    ('12.3 s', '12 000', '1.5e+12', '2.5')
    >>> number(2034.7, "steps per second"), number(12000.5, "samples")
    ('2 035 /s', '12 000')
    """
    if unit in ("fraction", "difference"):
        return f"{value:.4f}"
    if unit == "bytes":
        return _bytes(value)
    if unit == "operations":
        return f"{value:.3g}"
    if unit in SUBSCRIPTS:
        return f"{_plain(value)} {SUBSCRIPTS[unit]}"
    return _plain(value)


def signed(value: float, unit: str) -> str:
    """Return the difference *value* of two values in *unit*, with its sign; nothing has none.

    >>> signed(0.0123, "fraction"), signed(-0.12, "fraction"), signed(2048, "bytes")
    ('+0.0123', '-0.1200', '+2.0 KiB')
    >>> signed(-0.000012, "difference"), signed(-1e-17, "difference")
    ('-0.000012', '0.0000')
    """
    if unit in ("fraction", "difference"):
        places = 4 if abs(value) >= 0.00005 else 6  # or an interval that leaves out zero would end at it
        return f"{value:+.{places}f}" if round(value, places) else f"{0:.4f}"
    return ("+" if value >= 0 else "") + number(value, unit)


def exact(value: float, unit: str) -> float:
    """Return *value* for machines: a count as an integer, everything else as it is.

    >>> exact(12970.0, "samples"), exact(1.0, "fraction")
    (12970, 1.0)
    >>> exact(1e30, "operations")
    1e+30
    """
    return int(value) if unit in COUNTED and abs(value) < EXACT and value == int(value) else value


def _plain(value: float) -> str:
    """Return *value* with three digits, or as a whole number with spaces if it is one or has more digits than that."""
    is_whole = value == int(value) or abs(value) >= 999.5  # which three digits would write as 1e+03
    return f"{value:,.0f}".replace(",", " ") if is_whole else f"{value:.3g}"


def _bytes(value: float) -> str:
    for name in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {name}" if name == "B" else f"{value:.1f} {name}"
        value /= 1024
    return f"{value:.1f} GiB"
