"""Claims of insured people, some of whom were insured for a part of the year: Poisson regression of a rate.

The table is made up. A count over a time t is told as the rate y/t, and counts as much as its time does.
"""

from __future__ import annotations

import numpy as np

from sordino import PrivatePoissonRegressor

rng = np.random.default_rng(3)
age, power = rng.uniform(18, 80, 20_000), rng.uniform(40, 200, 20_000)
years = rng.choice([0.25, 0.5, 1.0], 20_000)
rate = np.exp(-1.0 - 0.02 * (age - 50) + 0.006 * (power - 120))
claims = rng.poisson(rate * years)

# every row by itself, to [-1, 1] by public bounds
X = np.column_stack([(age - 49) / 31, (power - 120) / 80])
model = PrivatePoissonRegressor(
    epsilon=1.0,
    delta=1e-6,
    row_norm=np.sqrt(2),
    target_range=(0, 12),  # claims in a year
    mean_guess=0.5,  # a public guess of their mean
    weight_bound=1.0,  # nobody is insured for more than the year
)
model.fit(X, claims / years, sample_weight=years)

print(model.certificate_.statement)
for note in model.certificate_.notes:
    print(note)
# looked at without noise: these records are made up, and would be private in earnest
predicted = model.predict(X)
print(f"{claims.sum()} claims; {np.sum(predicted * years):.0f} are predicted.")
print(f"Correlation with the true rate: {np.corrcoef(np.log(predicted), np.log(rate))[0, 1]:.3f}")
