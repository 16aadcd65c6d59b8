"""Networks of PyTorch, trained privately: `fit` is the training loop."""

try:
    from sordino.torch.augmentation import Copies, Mirror, Shift
    from sordino.torch.callbacks import Moment, Report
    from sordino.torch.training import PLANNED, Fitted, fit, plan, weights_of
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError("torch is not installed: pip install 'sordino[torch]'.", name="torch") from None

__all__ = ["PLANNED", "Copies", "Fitted", "Mirror", "Moment", "Report", "Shift", "fit", "plan", "weights_of"]
