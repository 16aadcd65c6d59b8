import numpy as np

from sordino import PrivateLogisticRegression, verify

rng = np.random.default_rng(0)  # stands in for your records
X = rng.uniform(-1, 1, size=(20_000, 5))
y = (X @ [2, -1, 0.5, 0, 1] + rng.logistic(size=20_000) > 0).astype(int)

model = PrivateLogisticRegression(
    epsilon=1.0,  # smaller is more private
    row_norm=np.sqrt(5),  # a bound you know without looking at X
    classes=[0, 1],
)
model.fit(X, y)

print(model.coef_, model.certificate_.statement)
assert all(finding.holds for finding in verify(model.certificate_))
model.certificate_.save("certificate.json")
