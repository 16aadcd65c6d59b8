"""Networks of PyTorch: an oracle that clips every record's gradient by book-keeping, and parameters as one vector."""

from sordino.oracle.torch.oracle import TorchOracle
from sordino.oracle.torch.parameters import load_parameters, network_problem, parameter_count, parameter_vector

__all__ = ["TorchOracle", "load_parameters", "network_problem", "parameter_count", "parameter_vector"]
