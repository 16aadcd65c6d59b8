import numpy as np
import pandas as pd

from sordino import PrivateLogisticRegression, Schema, load_model, save_model, verify

rng = np.random.default_rng(0)  # stands in for your records
records = pd.DataFrame({"age": rng.integers(18, 91, size=20_000), "job": rng.choice(["farm", "office"], size=20_000)})
records["income"] = np.where(records["age"] + rng.normal(0, 20, size=20_000) > 50, "high", "low")

print(Schema.sketch(records, target="income"))  # names and types alone: what may be in a column is yours to say
schema = Schema.from_toml("""
target = { column = "income", classes = ["low", "high"] }
[columns]
age = { low = 18, high = 90, missing = "indicator" }
job = { values = ["farm", "office"], other = true }
""")

model = PrivateLogisticRegression(epsilon=1.0, schema=schema).fit(records)
assert all(finding.holds for finding in verify(model.certificate_))
save_model(model, "income.sordino")
print(load_model("income.sordino").predict(records.head()))
