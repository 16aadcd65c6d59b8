"""A class that one record in twenty has: ranking, and what weights of classes do to recall.

The table is made up. The ranking (AUC) is what training can keep; which share of the rare class is found is decided by
the score from which it is predicted. Weights of classes move that score and cost some of the ranking.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score, roc_auc_score

from sordino import PrivateLogisticRegression

rng = np.random.default_rng(7)
X = rng.uniform(-1, 1, size=(24_000, 8))
score = X @ np.array([3.0, -2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]) - 5.0
y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-score)), "ill", "well")
train, test = slice(0, 16_000), slice(16_000, None)

# every feature lies between -1 and 1, which is public, and so is the bound on a row
public = {"epsilon": 1.0, "delta": 1e-6, "row_norm": np.sqrt(8), "classes": ["ill", "well"]}
models = {
    "not private": LogisticRegression(C=1e6),
    "epsilon 1": PrivateLogisticRegression(**public),
    "epsilon 1, balanced": PrivateLogisticRegression(**public, class_weight="balanced"),
}
# looked at without noise: these records are made up, and would be private in earnest
print(f"{np.mean(y == 'ill'):.1%} are ill.")
for name, model in models.items():
    model.fit(X[train], y[train])
    # the second class is the one that scores speak for
    area = roc_auc_score(y[test] == "well", model.decision_function(X[test]))
    found = recall_score(y[test], model.predict(X[test]), pos_label="ill")
    print(f"{name:20} AUC {area:.3f}   of the ill are found {found:.2f}")
