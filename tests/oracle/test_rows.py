"""Raw rows to rows of bounded norm."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.oracle.rows import Rows


@pytest.mark.parametrize("rows", [Rows(2.0), Rows(2.0, 0.4), Rows(0.5, 1.2, norm=3.0)], ids=str)
def test_no_row_is_longer_than_its_norm(rows):
    norms = np.array([0.0, 1e-9, 0.1, 0.999, 1.0, 1.001, 1.5, 10.0, 1e300]) * rows.bound
    after = np.hypot(rows.scales(norms) * norms, rows.intercept)
    assert np.all(after <= rows.norm * (1 + 1e-12))
    # rows at the bound and above use all of it, rows within keep their shape
    np.testing.assert_allclose(after[4:], rows.norm, rtol=1e-12)
    np.testing.assert_allclose(rows.scales(norms)[:5], rows.factor, rtol=1e-12)


def test_a_row_that_is_not_finite_is_dropped():
    assert Rows(1.0).scales(np.array([np.nan, np.inf])).tolist() == [0.0, 0.0]
