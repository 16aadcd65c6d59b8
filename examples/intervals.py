"""What an hour of work is paid, with an interval for every coefficient: a regression on a table that nobody may see.

The table is made up, so that the truth is known and can be printed beside the intervals. Your own records take its
place; what stands in the schema must not come from them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from sordino import PrivateLinearRegression, Schema, verify

rng = np.random.default_rng(0)  # stands in for your records
people = pd.DataFrame(
    {
        "age": rng.integers(18, 66, size=30_000),
        "schooling": rng.integers(8, 21, size=30_000),
        "hours": rng.uniform(0, 60, size=30_000),
    }
)
people["wage"] = 5 + 0.1 * people["age"] + 1.2 * people["schooling"] + rng.normal(0, 4, size=30_000)

schema = Schema.from_toml("""
target = { column = "wage", low = 0, high = 60 }
[columns]
age = { low = 18, high = 65 }
schooling = { low = 8, high = 20 }
hours = { low = 0, high = 60 }
""")
model = PrivateLinearRegression(epsilon=1.0, schema=schema, intervals=True).fit(people)
assert all(finding.holds for finding in verify(model.certificate_))
print(model.certificate_.statement)

# a number is encoded from -1 at its lower bound to 1 at its upper one: a year of schooling is a sixth of that
widths = {name: (column.high - column.low) / 2 for name, column in schema.columns.items()}
truth = {"age": 0.1, "schooling": 1.2, "hours": 0.0}
for name, value, (low, high) in zip(widths, model.coef_, model.confidence_intervals(0.95).coef, strict=True):
    unit = widths[name]
    print(f"{name:>10}: {value / unit:7.3f}   from {low / unit:7.3f} to {high / unit:7.3f}   (truly {truth[name]})")

somebody = pd.DataFrame({"age": [40], "schooling": [12], "hours": [38.0]})
((low, high),) = model.predict_interval(somebody, 0.95)
print(f"At 40, after 12 years of school: {model.predict(somebody)[0]:.2f} on average, from {low:.2f} to {high:.2f}.")
