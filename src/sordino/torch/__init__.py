"""Networks of PyTorch, trained privately: `fit` is the training loop."""

from sordino.torch.callbacks import Moment, Report
from sordino.torch.training import Fitted, fit, weights_of

__all__ = ["Fitted", "Moment", "Report", "fit", "weights_of"]
