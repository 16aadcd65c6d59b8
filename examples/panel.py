"""Several years of each person: whether somebody sees a doctor in a year, from the RAND health insurance experiment.

The table of statsmodels does not say whose a row is. Here rows with the same covariates that follow one another are
taken for the years of one person, in runs of five, or of three: people took part for three years or for five. That is
a reconstruction; your own table has a column for it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.metrics import roc_auc_score

from sordino import PrivateLogisticRegression

COVARIATES = ["lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"]
# round bounds that are taken to be public here: logarithms of money, a number of chronic diseases, and yes or no
LOW = np.zeros(9)
HIGH = np.array([5.0, 1.0, 8.0, 10.0, 1.0, 60.0, 1.0, 1.0, 1.0])


def persons(table: pd.DataFrame) -> np.ndarray:
    values = table[COVARIATES].to_numpy()
    runs = np.split(np.arange(len(table)), np.flatnonzero((values[1:] != values[:-1]).any(axis=1)) + 1)
    found, count = np.empty(len(table), dtype=int), 0
    for run in runs:
        years = 5 if len(run) <= 5 or len(run) % 5 == 0 or len(run) % 3 else 3
        found[run] = count + np.arange(len(run)) // years
        count = int(found[run[-1]]) + 1
    return found


table = sm.datasets.randhie.load_pandas().data
table["person"] = persons(table)
table["visit"] = table["mdvis"] > 0
# every row by itself, to [-1, 1] by public bounds
rows = pd.DataFrame(2 * (table[COVARIATES].clip(LOW, HIGH, axis=1) - LOW) / (HIGH - LOW) - 1)
rows["person"] = table["person"]

# people are held out, not rows
held_out = table["person"] % 4 == 0
model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, row_norm=3.0, classes=[False, True])
model.fit(rows[~held_out], table["visit"][~held_out], person="person", records_per_person=5)

print(model.certificate_.statement)
# looked at without noise: these rows are public here, and would not be in earnest
area = roc_auc_score(table["visit"][held_out], model.decision_function(rows[held_out][COVARIATES]))
print(f"{table['person'][~held_out].nunique()} persons; AUC {area:.3f} on the years of others (.5 is a guess).")
