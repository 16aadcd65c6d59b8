"""Distributed DP-SRM as Markdown and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sordino.papers.drawing import drawing, name_lines
from sordino.papers.experiment import Known

WAYS = ("one owner of all", "t = 0", "t = 1", "t = 4")
DISTRIBUTED = {("a9a", 0.2): 0.3629, ("a9a", 0.5): 0.3572, ("ijcnn1", 0.2): 0.2618, ("ijcnn1", 0.5): 0.2393}
"""Test losses that the paper prints for DDP-SRM."""
READING = """
Owners cost nothing in accuracy but the noise against those among them who pool what they know. t = 0 protects against
those outside the federation only. Settings are the best of the grid of `table2_004` on held-out training records, which
looks at records and is not in epsilon; ijcnn1 at .5 was not searched and has those of .2. Losses are without the
penalty. Different seeds draw different batches, so that even t = 0 and one owner of all differ by chance.
"""


def tables(known: Known) -> str:
    lines = [
        "Test loss, mean (deviation) over runs; delta = 1e-5, replace-one. In brackets the noise's standard deviation "
        "over the planned one's; ± is one standard error.",
        "",
        "| data, epsilon | " + " | ".join(WAYS) + " | t = 0 over one owner | printed DDP-SRM |",
        "|---" * 7 + "|",
    ]
    often = 0
    for row, printed in DISTRIBUTED.items():
        if not all(f"{_key(row)}, {way}" in known for way in WAYS):
            continue
        ways = {way: known[f"{_key(row)}, {way}"] for way in WAYS}
        cells = [
            f"{np.mean(one['losses']):.4f} ({np.std(one['losses'], ddof=1):.4f})"
            + (f" [{one['noise']:.3f}]" if way.startswith("t") else "")
            for way, one in ways.items()
        ]
        central, shared = ways[WAYS[0]]["losses"], ways["t = 0"]["losses"]
        gap = 100 * (np.mean(shared) / np.mean(central) - 1)
        error = 100 * np.hypot(np.std(central, ddof=1), np.std(shared, ddof=1)) / len(central) ** 0.5 / np.mean(central)
        lines.append(f"| {_key(row)} | {' | '.join(cells)} | {gap:+.1f} % ± {error:.1f} | {printed:.4f} |")
        often = len(shared)
    lines += [
        "",
        f"{often} runs each, by all owners in one process, adding up in the open what a secure sum would open.",
    ]
    return "\n".join([*lines, *_processes(known), *_networks(known), ""])


def _processes(known: Known) -> list[str]:
    if (one := known.get("a9a, ten processes")) is None:
        return []
    exact = "are" if one["bit for bit those of one process"] else "are NOT"
    return [
        "",
        f"a9a by ten processes over TLS with MPyC, epsilon {one['epsilon']:g}, t = {one['colluders']}: "
        f"{one['sums']} sums in {one['seconds']:.1f} s on this machine, {one['bytes by an owner'] / 1e6:.1f} MB "
        f"sent by an owner, test loss {one['test loss']:.4f}. The weights {exact} those of one process, bit for "
        "bit.",
    ]


def _networks(known: Known) -> list[str]:
    lines = []
    for whole in (True, False):
        owners = {c: one for c, one in known.items() if c.startswith("MNIST") and c.endswith("in full") == whole}
        if not owners:
            continue
        one = next(iter(owners.values()))
        short = "" if whole else " A beginning: only the likeness of the accuracies says something."
        lines += [
            "",
            f"MNIST CNN (26,010 weights), epsilon {one['epsilon']:g}, t = 0, one run, {one['steps']} steps on "
            f"{one['records']:,} pictures.{short}",
            "",
            "| owners | test accuracy |",
            "|---|---|",
            *(f"| {cell.split()[1]} | {one['accuracy']:.4f} |" for cell, one in owners.items()),
        ]
    return lines


def networks_in_full(known: Known) -> dict[int, Any]:
    """The network's runs of full length, by how many owners there are."""
    return {int(c.split()[1]): one for c, one in known.items() if c.startswith("MNIST") and c.endswith("in full")}


def draw(known: Known, path: Path) -> None:
    owners = networks_in_full(known)
    across = len(DISTRIBUTED) + bool(owners)
    with drawing(path, 1, across, figsize=(2.6 * across, 2.8), squeeze=False) as panels:
        if owners:
            errors = [100 - 100 * one["accuracy"] for one in owners.values()]
            panels[0][-1].bar([str(m) for m in owners], errors, width=0.6)
            panels[0][-1].set(title="MNIST, the network", xlabel="owners", ylabel="test error, %")
        for axes, (row, printed) in zip(panels[0], DISTRIBUTED.items(), strict=False):
            if not all(f"{_key(row)}, {way}" in known for way in WAYS):
                continue
            losses = [known[f"{_key(row)}, {way}"]["losses"] for way in WAYS]
            means, spreads = [np.mean(x) for x in losses], [np.std(x, ddof=1) for x in losses]
            axes.errorbar(range(len(WAYS)), means, spreads, fmt="o", ms=4, capsize=3)
            axes.axhline(printed, color="black", lw=0.7, ls=":", label="printed DDP-SRM")
            axes.set_xticks(range(len(WAYS)), ["central", "t=0", "t=1", "t=4"], fontsize=7)
            axes.set(title=_key(row), ylabel="test loss" if axes is panels[0][0] else "")
        name_lines(panels[0], 6)


def _key(row: tuple[str, float]) -> str:
    return f"{row[0]}, {row[1]:g}"
