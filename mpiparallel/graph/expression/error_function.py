"""The error function, which NumPy lacks, of whole arrays.

The coefficients were computed with 70 digits: they interpolate at the zeros of Chebyshev's polynomials. The form of
``erfc`` is that of Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x)exp(x^2)erfc x" (1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

Array = Any

_NEAR_ZERO: Final = (
    *(1.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.026866170645129854, 0.005223977625423455),
    *(-0.0008548327021945428, 0.00012055332903350668, -1.4925647581008593e-05, 1.6462045711013017e-06),
    *(-1.6364645854816264e-07, 1.4792435426961338e-08, -1.2164764337217734e-09, 8.709755232828248e-11),
    -4.232037676451257e-12,
)
"""``erf(x) / x`` where ``abs(x)`` is at most 1, as a polynomial of ``x * x``, the lowest power first."""
_CENTRE: Final = 3.75
_SCALED: Final = (
    *(1.2375126308378275, -0.14024059858554702, 0.00358541548546369, 0.08227673849015112, -0.10880393014170746),
    *(0.09230432116019513, -0.058693398590547695, 0.028362277421569364, -0.009746579547618766, 0.0017556258319139934),
    *(0.0002937135947998944, -0.0002901539762990061, 5.164940780076347e-05, 2.238390038090339e-05),
    *(-1.1445049199610938e-05, -9.728185029677076e-07, 1.753443572359783e-06, -5.832039466992171e-08),
    *(-2.611472253214021e-07, 2.4363842659574258e-08, 4.0971409688361334e-08, -4.454188309154417e-09),
    *(-6.545671473509571e-09, 5.826552475656065e-10, 9.022536135434385e-10, -4.9844152844245993e-11),
    *(-7.34009873292927e-11, 1.8240025042773818e-12),
)
"""``(1 + 2 * x) * exp(x * x) * erfc(x)`` of positive ``x`` as a polynomial of ``(x - centre) / (x + centre)``."""
_NOTHING_LEFT: Final = 28.0
"""Where ``erfc`` is less than the smallest number."""


def erf(x: Array, out: Array) -> None:
    """Write the error function of each element, computed in float64.

    >>> found = np.empty(2)
    >>> erf(np.array([0.0, 1.0]), out=found)
    >>> found.round(12).tolist()
    [0.0, 0.84270079295]
    """
    wide = np.asarray(x, np.float64)
    far = np.copysign(1.0 - _right_tail(np.abs(wide)), wide)
    np.copyto(out, np.where(np.abs(wide) > 1.0, far, _near_zero(wide)), casting="same_kind")


def erfc(x: Array, out: Array) -> None:
    """Write 1 less the error function of each element, computed in float64 and exact where that is near 1.

    >>> found = np.empty(2)
    >>> erfc(np.array([0.0, 0.5]), out=found)
    >>> found.round(12).tolist()
    [1.0, 0.479500122187]
    """
    wide = np.asarray(x, np.float64)
    tail = _right_tail(np.abs(wide))
    far = np.where(wide < 0.0, 2.0 - tail, tail)
    np.copyto(out, np.where(np.abs(wide) > 0.5, far, 1.0 - _near_zero(wide)), casting="same_kind")


def _near_zero(x: Array) -> Array:
    """Return ``erf`` of numbers of at most 1; what it returns of others means nothing."""
    return x * _polynomial(_NEAR_ZERO, np.minimum(np.abs(x), 1.0) ** 2)


def _right_tail(x: Array) -> Array:
    """Return ``erfc`` of numbers that are not negative."""
    bounded = np.minimum(x, _NOTHING_LEFT)
    # The square of a float32 is exact, so that large exponents are.
    high = bounded.astype(np.float32).astype(np.float64)
    decay = np.exp(-high * high) * np.exp((high - bounded) * (high + bounded))
    scaled = _polynomial(_SCALED, (bounded - _CENTRE) / (bounded + _CENTRE))
    return decay * scaled / (1.0 + 2.0 * bounded)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    value = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value *= x
        value += coefficient
    return value
