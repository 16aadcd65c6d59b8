"""Every table and figure of the five papers: what it needs, and which module measures it, or why none does."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from sordino.papers.experiment import Experiment

PAPERS = {
    "000": "Zhang, Zheng, Mou & Wang 2017: output perturbation and random rounds for smooth objectives",
    "001": "Zhou, Chen, Hong, Wu & Banerjee 2020: DP-Adam and DP-RMSProp",
    "002": "Yu, Zhang, Chen, Yin & Liu 2020: gradient perturbation under the expected curvature",
    "003": "Bassily, Feldman, Talwar & Thakurta 2019: optimal population loss",
    "004": "Wang, Jayaraman, Evans & Gu 2019: recursive momentum, alone and distributed",
}
"""In the order of docs/papers."""


@dataclass(frozen=True)
class Piece:
    """Tables and figures that one module measures together."""

    paper: str
    names: tuple[str, ...]
    """As in the paper; the first is the one that results are kept under."""
    what: str
    module: str = ""
    """Empty where nothing is measured."""
    data: tuple[str, ...] = ()
    """Names for `sordino data get`."""
    packages: tuple[str, ...] = ()
    """Whose versions matter, beside those that always do."""
    why_not: str = ""

    @property
    def title(self) -> str:
        return f"{PAPERS[self.paper].partition(':')[0]}: {self.what}"

    @property
    def experiment(self) -> Experiment:
        return cast("Experiment", import_module(f"sordino.papers.{self.module}"))


PIECES = (
    Piece("000", ("table1",), "rates of earlier results and of this one", "rates_000"),
    Piece(
        "000",
        ("table3", "table2"),
        "output perturbation against noisy mini-batch SGD; sizes of the data sets",
        "table3_000",
        ("bank", "adult", "creditcard_default", "wine_quality", "bike_hour"),
    ),
    Piece("001", ("figure1",), "DP-SGD, DP-RMSProp and DP-Adam at equal noise", "figure1_001", ("mnist",), ("torch",)),
    Piece("001", ("theorems",), "rates of Theorems 5 and 6 (the paper has no table of them)", "rates_001"),
    Piece("002", ("table1",), "bounds on the excess empirical risk", "rates_002"),
    Piece(
        "002",
        ("table2", "figure1"),
        "minimum, average and expected curvatures",
        "curvature_002",
        ("graduate_admission", "sonar", "boston_housing", "swedish_motor", "adult"),
    ),
    Piece(
        "002",
        ("table4", "figure2", "table3"),
        "accuracy of private regression; sizes of the data sets",
        "table4_002",
        ("adult", "mnist", "rcv1"),
    ),
    Piece("003", ("slopes",), "excess population loss against n (the paper has no experiments)", "slopes_003"),
    Piece("004", ("table1",), "utility and gradients of private nonconvex methods", "rates_004"),
    Piece(
        "004",
        ("table2", "table3", "figure1", "figure2"),
        "nonconvex logistic regression on a9a and ijcnn1",
        "table2_004",
        ("a9a", "ijcnn1"),
    ),
    Piece(
        "004",
        ("figure3",),
        "convolutional networks on MNIST, and on a fifth of CIFAR-10",
        "figure3_004",
        ("mnist", "cifar10_subset"),
        ("torch",),
    ),
    Piece("004", ("figure4",), "CNN5 on all of CIFAR-10", "figure4_004", ("cifar10",), ("torch",)),
    Piece(
        "004",
        ("figure5",),
        "CNN6 on CIFAR-10, its convolutions from public pictures",
        "figure5_004",
        ("cifar10",),
        ("torch",),
    ),
    Piece(
        "004",
        ("distributed",),
        "ten owners against one: DDP-SRM's rows of Tables 2 and 3, panels g and h of Figure 3",
        "ddp_004",
        ("a9a", "ijcnn1", "mnist"),
        ("mpyc", "torch"),
    ),
    Piece(
        "004",
        ("table4", "table5", "table6"),
        "what secure sums cost",
        why_not="another protocol here, which benchmarks/federation.py times",
    ),
)


def find(paper: str | None, name: str | None) -> tuple[Piece, ...]:
    """The pieces that are asked for; all that can be run where nothing is named."""
    if paper is not None and paper not in PAPERS:
        raise ValueError(f"there is no paper {paper!r}: one of {', '.join(PAPERS)} is needed.")
    found = [piece for piece in PIECES if paper in (None, piece.paper) and (name is None or name in piece.names)]
    if not found:
        known = ", ".join(name for piece in PIECES if piece.paper == paper for name in piece.names)
        raise ValueError(f"paper {paper} has no {name!r}: it has {known}.")
    if name is not None and not found[0].module:
        raise ValueError(f"{name} of paper {paper} is not measured here: {found[0].why_not}.")
    return tuple(piece for piece in found if piece.module)
