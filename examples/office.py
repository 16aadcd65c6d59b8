"""A data office: two analysts and an officer, one data set of epsilon 2, and a stranger who checks the ledger.

python examples/office.py                                   a ledger in a file, in a new folder
python examples/office.py postgresql://user@host/database   or in PostgreSQL
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from sordino import Budget, Ledger, PrivateLogisticRegression, charged_to
from sordino.identity import Identity
from sordino.ledger.ledger import ApprovalNeeded, Role
from sordino.methods import NoisyGradientDescent
from sordino.model_file import save_model

folder = Path(tempfile.mkdtemp(prefix="office-"))
address = sys.argv[1] if len(sys.argv) > 1 else str(folder / "survey.ledger")

warnings.simplefilter("ignore")  # that the same records are fitted twice: the ledger keeps count here
rng = np.random.default_rng(0)  # stands in for the records
X = rng.uniform(-1, 1, size=(5_000, 3))
y = (X @ [2, -1, 0.5] + rng.logistic(size=5_000) > 0).astype(int)


def model(epsilon: float) -> PrivateLogisticRegression:
    method = NoisyGradientDescent(steps=100)
    return PrivateLogisticRegression(epsilon, 1e-6, row_norm=np.sqrt(3), classes=[0, 1], method=method)


# everybody has a key of their own, and the same ledger
olga, ada, bob = (Identity.create(folder / name, name) for name in ("Olga", "Ada", "Bob"))
office, of_ada, of_bob = (Ledger(address, identity) for identity in (olga, ada, bob))

# the officer: rules from now on, admits two analysts, and opens the data set
office.admit(olga.face, Role.OFFICER)
for analyst in (ada, bob):
    office.admit(analyst.face, Role.ANALYST)
office.open("survey 2026", Budget(2.0, 1e-6), approval=True, expires="2999-12-31")

# both analysts try: nothing is run, and two requests wait
for ledger, epsilon in ((of_ada, 1.0), (of_bob, 0.8)):
    try:
        with charged_to(ledger, "survey 2026"):
            model(epsilon).fit(X, y)
    except ApprovalNeeded as needed:
        print(needed)

# the officer reads what each would cost, and decides
for request in office.statement("survey 2026").requests:
    print(f"Request {request.number}: {request.note}")
office.approve(0, "as in the study's protocol")
office.refuse(1, "the follow-up needs what is left")

# Ada runs the same again; Bob is told why not
fitted = model(1.0)
with charged_to(of_ada, "survey 2026"):
    fitted.fit(X, y)
save_model(fitted, folder / "model.sordino")
try:
    with charged_to(of_bob, "survey 2026"):
        model(0.8).fit(X, y)
except PermissionError as refused:
    print(refused)

# the head leaves the house; what comes later must extend it
head = office.head()
stands = office.statement("survey 2026")
(entry,) = stands.recent
print(f"Spent: epsilon {stands.spent:.3f} of 2; one more release may ask for {stands.left:.3f}.")
assert entry.model == fitted.certificate_.weights

# a stranger, who has the ledger, the head and the officer's fingerprint, and trusts none of them
stranger = Ledger(address)
assert stranger.extends(head)
checked = stranger.check()
assert [face.fingerprint for face in checked.officers] == [olga.face.fingerprint]
print(f"Intact: {checked.lines} lines, {checked.signed} of them signed, {checked.reservations} reservation.")

# the page about the model, where the extra for it is installed
try:
    from sordino.reporting import report

    report(folder / "model.sordino", folder / "report.html", ledger=address)
    print(f"Report: {folder / 'report.html'}")
except ModuleNotFoundError as missing:
    print(missing)
