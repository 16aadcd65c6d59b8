"""A rare class, private from the first record to the last: train, evaluate on held-out records, choose a threshold.

Five in a hundred records are positive. A model trained on them says "no" to nearly everybody, because that is right so
often; what a screening needs is a recall, and that is a matter of the threshold. Both the threshold and every measure
below come from noisy counts on held-out records, which are as private as the ones trained on.
"""

from __future__ import annotations

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import recall_score
from sklearn.model_selection import FixedThresholdClassifier

from sordino import PrivateLogisticRegression, private_score, verify_evaluation

rng = np.random.default_rng(0)  # stands in for your records


def records(count: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-1, 1, size=(count, 6))
    return X, (X @ [3.0, -2.0, 1.0, 0.0, 1.0, 0.5] + rng.logistic(size=count) > 4.4).astype(int)


X, y = records(30_000)
model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, row_norm=np.sqrt(6), classes=[0, 1]).fit(X, y)

# other records: each of them is in one release only, so neither guarantee costs the other anything
X, y = records(20_000)
evaluation = private_score(model, X, y, epsilon=1.0, delta=1e-6, recall=0.8)
print(evaluation.certificate.statement)
for measure in evaluation.measures:
    if measure.group in ("", "threshold"):
        interval = "" if measure.low is None else f"   {measure.low:.3f} to {measure.high:.3f}"
        print(f"{measure.name:32} {measure.value:.3f}{interval}")
assert all(finding.holds for finding in verify_evaluation(evaluation))

# new records, looked at without noise because they are made up
X, y = records(50_000)
screening = FixedThresholdClassifier(FrozenEstimator(model), threshold=evaluation.threshold).fit(X, y)
print(f"Recall on new records: {recall_score(y, model.predict(X)):.3f} as trained,", end=" ")
print(f"{recall_score(y, screening.predict(X)):.3f} by the threshold.")
