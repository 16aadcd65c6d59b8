"""A small convolutional network on handwritten digits:  python examples/mnist.py [mnist.npz]

Without a file it takes the 1,797 small digits that come with scikit-learn, too few to learn much from in private.
Stop it whenever you like, and run it again: it goes on where it was.
"""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from sordino import Budget, DPAdam, verify
from sordino.torch import Report, fit

if len(sys.argv) > 1:
    with np.load(sys.argv[1]) as file:
        images, labels = file["x_train"] / np.float32(255), file["y_train"].astype(np.int64)
else:
    digits = load_digits()
    images, labels = (digits.images / 16).astype(np.float32), digits.target
images = images[:, None]  # one channel

model = nn.Sequential(
    nn.Conv2d(1, 16, kernel_size=5, stride=2, padding=2),
    nn.Tanh(),
    nn.Conv2d(16, 32, kernel_size=4, stride=2, padding=1),
    nn.Tanh(),
    nn.Flatten(),
    nn.LazyLinear(10),
)
model(torch.zeros(1, *images.shape[1:]))  # made-up input: gives the last layer its size

result = fit(
    model,
    nn.CrossEntropyLoss(reduction="none"),  # one loss per record
    (images, labels),  # or a torch.utils.data.Dataset
    method=DPAdam(step_size=0.01, clip=1.0, moments="corrected"),
    budget=Budget(epsilon=3.0, delta=1e-6),
    epochs=10,
    batch_size=min(1024, len(images) // 4),
    callbacks=[Report(every=50)],
    checkpoint="mnist-run",
    resume="auto",
)

print(result.certificate.statement)
assert all(finding.holds for finding in verify(result.certificate))
result.certificate.save("mnist-certificate.json")
torch.save(model.state_dict(), "mnist-weights.pt")
