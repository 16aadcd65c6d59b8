"""Networks of PyTorch, trained privately: `fit` is the training loop."""

from sordino.torch.callbacks import Moment, Report
from sordino.torch.training import Fitted, fit

__all__ = ["Fitted", "Moment", "Report", "fit"]
