"""Names of methods on the command line."""

from __future__ import annotations

import pytest

from sordino.cli.options import method_named
from sordino.methods import METHODS


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("noisy-sgd", "NoisySGD"),
        ("permutation-sgd", "PermutationSGD"),
        ("random-round-sgd", "RandomRoundSGD"),
        ("dp-sgd", "DPSGD"),
        ("dp-adam", "DPAdam"),
        ("dp-rms-prop", "DPRMSProp"),
        ("recursive-momentum", "RecursiveMomentum"),
        ("spider-boost", "SpiderBoost"),
        ("bassily-smith-thakurta", "BassilySmithThakurta"),
        ("output-perturbation", "OutputPerturbation"),
    ],
)
def test_names_are_words(name: str, kind: str) -> None:
    assert method_named(name) == METHODS[kind]()


def test_the_names_of_all_methods_are_told() -> None:
    with pytest.raises(ValueError, match="it must be auto, ") as refused:
        method_named("magic")
    names = str(refused.value).partition("must be auto, ")[2].rstrip(".").split(", ")
    assert len(names) == len(METHODS)
    assert [type(method_named(name)).__name__ for name in names] == list(METHODS)
    assert not any("s-g-d" in name for name in names)
    assert method_named("auto") == "auto"
