"""The shape of the source: `python tools/shape.py` prints what the house is measured by.

Lines by room, loops that ask for sums of gradients, plan classes, `Any` where methods, plans and oracles meet, import
cycles, public names with more than one home, and how many frames lie between `fit` and a kernel.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import grimp
import numpy as np

SOURCE = Path(__file__).parents[1] / "src" / "sordino"
JOINTS = r"\b(method|plan|oracle)\b: [^,)=]*\bAny\b"


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE), ast.parse(path.read_text())


def lines() -> Counter[str]:
    rooms: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).parts
        rooms[inside[0] if len(inside) > 1 else "."] += len(path.read_text().splitlines())
    return rooms


def loops() -> list[str]:
    """Functions that loop over steps and ask an oracle for sums of gradients inside."""
    found = []
    for path, tree in trees():
        if path.parts[0] != "methods":
            continue
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                steps = [loop for loop in ast.walk(function) if isinstance(loop, ast.For | ast.While)]
                if any(_asks(node) for loop in steps for node in ast.walk(loop)):
                    found.append(f"{path}:{function.name}")
    return found


def _asks(node: ast.AST) -> bool:
    called = isinstance(node, ast.Attribute) and node.attr in ("release", "gradient")
    return called and "oracle" in ast.unparse(node.value)


def plan_classes() -> list[str]:
    return [
        node.name
        for path, tree in trees()
        if path.parts[0] == "methods"
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Plan") and node.name != "Plan"
    ]


def loose_joints() -> list[str]:
    return [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(JOINTS, line)
    ]


def cycles() -> list[tuple[str, ...]]:
    graph = grimp.build_graph("sordino")
    above = {module: graph.find_downstream_modules(module) for module in graph.modules}
    rings = {tuple(sorted({one, *(other for other in above[one] if one in above[other])})) for one in above}
    return sorted(ring for ring in rings if len(ring) > 1)


def shared_names() -> dict[str, list[str]]:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path))
    return {name: where for name, where in homes.items() if len(where) > 1}


def frames(fit: Callable[[], object]) -> int:
    """How deep the stack is at the first product with rows, counted from `fit`."""
    from sordino.oracle import dense

    depth: list[int] = []
    answer = dense.DenseBlock.answer

    def counted(self: object, *given: object) -> object:
        if not depth:
            frame, names = sys._getframe(0), []
            while frame is not None:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            depth.append(names.index("fit") if "fit" in names else len(names))
        return answer(self, *given)

    dense.DenseBlock.answer = counted
    try:
        fit()
    finally:
        dense.DenseBlock.answer = answer
    return depth[0]


def main() -> None:
    rooms = lines()
    print(f"lines: {rooms.total():,}")
    for room, count in sorted(rooms.items(), key=lambda item: -item[1]):
        print(f"  {room:12} {count:6,}")
    for name, found in {
        "loops that ask for gradients": loops(),
        "plan classes": plan_classes(),
        "Any at the joints": loose_joints(),
        "import cycles": cycles(),
        "classes with several homes": [f"{name} ({', '.join(where)})" for name, where in shared_names().items()],
    }.items():
        print(f"{name}: {len(found)}", *(f"  {one}" for one in found), sep="\n")

    from sordino import PrivateLogisticRegression
    from sordino.files import Arrays

    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(500, 3)), generator.integers(0, 2, 500)
    model = PrivateLogisticRegression(epsilon=1.0, row_norm=1.0, classes=[0, 1], random_state=0)
    print(f"frames from fit to the rows, in memory: {frames(lambda: model.fit(X, y))}")
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        np.save(Path(folder) / "y.npy", y)
        records = Arrays(Path(folder) / "X.npy", Path(folder) / "y.npy")
        print(f"frames from fit to the rows, streamed: {frames(lambda: model.fit(records))}")


if __name__ == "__main__":
    main()
