"""Networks of PyTorch, trained privately: `fit` is the training loop."""

try:
    from sordino.torch.callbacks import Moment, Report
    from sordino.torch.training import Fitted, fit, weights_of
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError("torch is not installed: pip install 'sordino[torch]'.", name="torch") from None

__all__ = ["Fitted", "Moment", "Report", "fit", "weights_of"]
