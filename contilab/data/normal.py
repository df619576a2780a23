"""Normal random numbers that are the same bytes on every machine and with every version of numpy.

numpy fixes the stream of raw bits of its generators for ever (NEP 19), but not what `normal()` makes of them, and logarithms
differ in the last bit between C libraries and instruction sets. So the bits of Philox become normal numbers by the inverse of
the distribution, Wichura's algorithm AS 241 (PPND16, 1988), in operations that IEEE 754 defines exactly: + - * / and sqrt.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Coefficients of PPND16, highest power first: numerator and denominator for the centre, the near and the far tail.
CENTRE = (
    (
        2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
        1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
        5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
    ),
)  # fmt: skip
NEAR = (
    (
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
        3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
    ),
)  # fmt: skip
FAR = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
        2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
        1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
    ),
)  # fmt: skip


def normal(key: int, count: int) -> Floats:
    """Return *count* standard normal numbers of the stream that *key* (0 to 2^128 - 1) names."""
    bits = np.random.Philox(key=key).random_raw(count) >> np.uint64(12)
    return inverse((bits.astype(np.float64) + 0.5) * 2.0**-52)  # 52 bits: adding a half stays exact


def inverse(share: Floats) -> Floats:
    """Return the numbers below which *share*, strictly between 0 and 1, of the standard normal distribution lies."""
    q = share - 0.5
    is_central = np.abs(q) <= 0.425
    tail = np.sqrt(-logarithm(np.where(is_central, 0.5, np.minimum(share, 1.0 - share))))
    beyond = np.where(tail <= 5.0, _ratio(NEAR, tail - 1.6), _ratio(FAR, tail - 5.0))
    centre = q * _ratio(CENTRE, 0.180625 - np.where(is_central, q, 0.0) ** 2)
    return np.where(is_central, centre, np.copysign(beyond, q))


def logarithm(x: Floats) -> Floats:
    """Return the natural logarithm of positive *x*, as 2 artanh((m - 1) / (m + 1)) of the mantissa plus the exponent."""
    mantissa, exponent = np.frexp(x)  # mantissa in [0.5, 1)
    z = (mantissa - 1.0) / (mantissa + 1.0)  # |z| <= 1/3, so 16 terms leave less than 1e-17
    total = np.zeros_like(z)
    for power in range(33, 0, -2):
        total = total * (z * z) + 1.0 / power
    return 2.0 * z * total + exponent * 0.6931471805599453


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Floats) -> Floats:
    return _polynomial(coefficients[0], x) / _polynomial(coefficients[1], x)


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    total = np.zeros_like(x)
    for coefficient in coefficients:
        total = total * x + coefficient
    return total
