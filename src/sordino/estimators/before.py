"""What the records went through before they reached a private estimator.

A step that is fitted to the records, such as a StandardScaler, lets every record move all the others, and no noise
covers that. So does a model made of models that weighs, repeats or recodes records in view of all of them.
scikit-learn does not tell an estimator where it stands, so this looks for what is being fitted on the stack of calls:
it is there however it was built and called. From inside a pipeline an estimator may be handed to other threads and
processes; the copies made for them keep what was found.

What is out of reach: a step that was fitted by hand before `fit` is called.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, PolynomialFeatures
from sklearn.utils.validation import has_fit_parameter

from sordino.estimators.encoder import SchemaEncoder
from sordino.features import HOG, Scattering
from sordino.sentences import STEPS_PUBLIC

ROW_WISE = (
    AdditiveChi2Sampler,
    Binarizer,
    FeatureHasher,
    HashingVectorizer,
    HOG,
    Normalizer,
    PolynomialFeatures,
    Scattering,
    SchemaEncoder,
)
"""What comes out for a record depends on that record alone; `fit` looks at the number of columns at most."""

MAY_BE_SPARSE = (FeatureHasher, FrozenEstimator, FunctionTransformer, HashingVectorizer, SchemaEncoder)
"""What may make sparse rows of others, a function of NumPy's own aside. Beside such a ColumnTransformer counts the
zeros of all records, to decide whether their rows are sparse: how they are prepared and trained on follows from it."""

TRUSTED = (FrozenEstimator, FunctionTransformer)
"""On the user's word: fitted before, to public data; a function of each row by itself. The certificate names them."""

_ENSEMBLES = "sklearn.ensemble"

GO_BY_ALL = {
    _ENSEMBLES: ("AdaBoostClassifier", "AdaBoostRegressor"),
    "sklearn.impute": ("IterativeImputer",),
    "sklearn.linear_model": ("RANSACRegressor",),
    "sklearn.multiclass": ("OneVsOneClassifier", "OneVsRestClassifier", "OutputCodeClassifier"),
    "sklearn.semi_supervised": ("SelfTrainingClassifier",),
}
"""Models made of models that weigh, repeat, choose or fill records by errors, medians, ranks or means of all, or choose
or recode them by which classes occur, with a model for every such class. By their modules, which are not imported for
it."""


class KnowsItsPipeline:
    """For an estimator: refuses what is fitted to the records before it.

    A copy, or what is sent to another process, keeps what was found where it was made.
    """

    _found: tuple[type, ...] = ()

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()  # type: ignore[misc]
        if found := _before(self):
            copy._found = found
        return copy

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        found = _before(self)
        return {**state, "_found": found} if found else state

    def _as_part_of(self, whole: KnowsItsPipeline) -> Self:
        """What was found before another estimator, which is made of this one, stands before this one too."""
        self._found = _before(whole)
        return self

    def _steps_before(self) -> tuple[str, ...]:
        """The sentence about steps that are taken on trust, if there are any; an error where one is fitted."""
        found = _before(self)
        # by the kind itself: another one may have the same name
        fitted = [kind.__name__ for kind in found if kind not in TRUSTED]
        if fitted:
            raise ValueError(
                f"{fitted[0]} comes before {type(self).__name__} and is fitted to the records: each of them moves all "
                "the others through it, which the guarantee would not cover. Use steps that look at each record alone "
                "(Normalizer, FunctionTransformer with fixed numbers, a schema with public ranges), or fit "
                f"{fitted[0]} to public data and put FrozenEstimator(fitted) in its place. A ColumnTransformer chooses "
                "columns by their names or numbers, because their types follow from all records, and of sparse rows "
                "it needs sparse_threshold=0, or it counts the zeros of all. An ensemble numbers the classes that "
                "occur: those that are given would be others, so leave classes out."
            )
        return (STEPS_PUBLIC(names=", ".join(kind.__name__ for kind in found)),) if found else ()


def _before(estimator: KnowsItsPipeline) -> tuple[type, ...]:
    """The kinds of the steps before an estimator that are not known to be row-wise."""
    found = [*estimator._found]
    for thread, frame in sys._current_frames().items():
        own = thread == threading.get_ident()
        for owner, steps, X in _being_fitted(sys._getframe() if own else frame, estimator):
            # a thread of its own may do a part of the work of another one's pipeline, if it was given to it
            if own or any(part is estimator for part in owner.get_params().values()):
                sparse = _is_sparse(X) or any(map(_may_be_sparse, steps))
                found += [kind for step in steps for kind in _not_row_wise(step, sparse)]
    return tuple(dict.fromkeys(found))


def _being_fitted(frame: Any, estimator: KnowsItsPipeline) -> Iterator[tuple[Any, list[Any], Any]]:
    """Whatever is fitted on a stack of calls and changes the records, its steps before the last, and to what."""
    while frame is not None:
        if "fit" in frame.f_code.co_name:
            X = frame.f_locals.get("X")
            match owner := frame.f_locals.get("self"):
                case Pipeline():
                    yield owner, [step for _, step in owner.steps[:-1]], X
                case TransformedTargetRegressor():
                    yield owner, [owner.transformer if owner.func is None else FunctionTransformer(owner.func)], X
                case object(final_estimator_=_) if "X_meta" in frame.f_locals:
                    # stacking: the last model learns from what others, fitted to the records, predict
                    yield owner, [owner], X
                case _ if _goes_by_all(owner, estimator):
                    yield owner, [owner], X
        frame = frame.f_back


def _goes_by_all(owner: Any, estimator: KnowsItsPipeline) -> bool:
    """Whether a model made of models gives those inside other records, or other targets, than each record's own."""
    if any(isinstance(owner, _models(module, *names)) for module, names in GO_BY_ALL.items()):
        return True
    # a record that is drawn twice weighs twice as much, or else stands there twice and would be protected as two
    draws = isinstance(owner, _models(_ENSEMBLES, "BaggingClassifier", "BaggingRegressor"))
    inner = getattr(owner, "estimator_", estimator)
    repeated = draws and owner.bootstrap and not has_fit_parameter(inner, "sample_weight")
    # of a class they give its number among those that occur
    numbered = isinstance(owner, _models(_ENSEMBLES, "BaggingClassifier", "StackingClassifier", "VotingClassifier"))
    return repeated or (numbered and getattr(estimator, "classes", None) is not None)


def _models(module: str, *names: str) -> tuple[type, ...]:
    """Nothing where nobody has imported them, which takes a while: then none is being fitted."""
    there = vars(sys.modules[module]) if module in sys.modules else {}
    return tuple(there[name] for name in names if name in there)


def _not_row_wise(step: Any, sparse: bool) -> Iterator[type]:
    # the very kinds: what derives from them may do anything
    if step is None or isinstance(step, str) or type(step) in ROW_WISE:
        return
    counts = type(step) is ColumnTransformer and (
        any(map(_looks_at_records, step.transformers)) or (sparse and step.sparse_threshold > 0)
    )
    parts = _parts(step)
    if parts is None or counts:
        yield type(step)
        return
    for part in parts:
        yield from _not_row_wise(part, sparse)


def _is_sparse(X: Any) -> bool:
    """Of a data frame scikit-learn makes sparse rows where all columns that a step is given are sparse."""
    return issparse(X) or any(str(kind).startswith("Sparse") for kind in getattr(X, "dtypes", ()))


def _may_be_sparse(step: Any) -> bool:
    if isinstance(step, FunctionTransformer) and (step.func is None or isinstance(step.func, np.ufunc)):
        return False
    return type(step) in MAY_BE_SPARSE or any(map(_may_be_sparse, _parts(step) or ()))


def _parts(step: Any) -> list[Any] | None:
    """Of what is made of other steps; None of anything else."""
    if type(step) is Pipeline:
        return [part for _, part in step.steps]
    if type(step) is FeatureUnion:
        return [part for _, part in step.transformer_list]
    if type(step) is ColumnTransformer:
        return [step.remainder, *(part for _, part, _ in step.transformers)]
    return None


def _looks_at_records(part: tuple[str, Any, Any]) -> bool:
    """A function that chooses columns is given all the records; scikit-learn's own looks at names, and at dtypes.

    Those follow from all cells of a data frame's columns: whole numbers are floats where a single one is missing.
    """
    _, _, columns = part
    if type(columns) is make_column_selector:
        return columns.dtype_include is not None or columns.dtype_exclude is not None
    return callable(columns)
