"""A schema as a step of a pipeline."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from sordino.tabular.schema import Schema


class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The rows of a table as its public schema encodes them, each by itself: `fit` looks at the names of columns.

    A private estimator accepts it before it in a pipeline; `schema.row_norm` is the bound of what comes out.

    Parameters
    ----------
    schema : a `sordino.Schema`. Its target is not encoded, and need not be in the table.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> Self:
        from sordino.tabular.frames import require_table

        require_table(X, list(self.schema.columns))
        self.feature_names_in_ = np.array(list(self.schema.columns), dtype=object)
        self.n_features_in_ = len(self.schema.columns)
        return self

    def transform(self, X: Any) -> Any:
        """Dense, or sparse where the schema is wide."""
        from sordino.tabular.encode import encode_features

        return encode_features(self.schema, X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        return np.array(self.schema.feature_names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit, tags.input_tags.string, tags.input_tags.categorical = False, True, True
        tags.input_tags.allow_nan = True
        return tags
