"""Every method on records in files: the weights it would have found in memory."""

from __future__ import annotations

import numpy as np
import pytest

import few_steps
import stored
from sordino.methods import METHODS
from sordino.oracle import linear_oracle
from sordino.oracle.files import source as source_module

RECORDS, FEATURES = 1037, 5


def test_every_method_is_here():
    assert set(few_steps.SETTINGS) == set(METHODS)


@pytest.mark.parametrize("name", few_steps.SETTINGS)
def test_the_weights_of_memory(tmp_path, name):
    method = few_steps.SETTINGS[name]
    problem = few_steps.problem(method, RECORDS, FEATURES)
    X, y = few_steps.data(RECORDS, FEATURES, np.float32)
    memory = few_steps.weights(method, problem, linear_oracle(X, y, problem, few_steps.ROWS))
    source = stored.parquet_folder(tmp_path, X, y)
    found = few_steps.weights(method, problem, linear_oracle(source, None, problem, few_steps.ROWS))
    np.testing.assert_array_equal(found, memory)
    assert np.any(memory != 0)


@pytest.mark.parametrize("name", few_steps.SETTINGS)
def test_in_many_blocks(tmp_path, name, monkeypatch):
    """Sums that differ by rounding may fall on neighbouring points of the noise's lattice."""
    monkeypatch.setattr(source_module, "_NUMBERS", 1)
    method = few_steps.SETTINGS[name]
    problem = few_steps.problem(method, RECORDS, FEATURES)
    X, y = few_steps.data(RECORDS, FEATURES)
    memory = few_steps.weights(method, problem, linear_oracle(X, y, problem, few_steps.ROWS))
    source = stored.npy(tmp_path, X, y)
    assert source.units.blocks > 4
    found = few_steps.weights(method, problem, linear_oracle(source, None, problem, few_steps.ROWS))
    np.testing.assert_allclose(found, memory, rtol=1e-6, atol=1e-7)
