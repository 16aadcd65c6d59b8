"""The curves of an additive model, as they were released."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sordino.model_file import LoadedModel
from sordino.reporting.section import Figure, Section

if TYPE_CHECKING:
    from sordino.tabular.effects import Effect

_MOST = 24
"""Figures; a page is read by people."""


def curves_section(model: LoadedModel) -> Section | None:
    if model.schema is None or model.schema.curves is None:
        return None
    from sordino.reporting.figures import drawn
    from sordino.tabular.effects import draw, effects

    found = effects(model.schema, model.coef)
    labels = () if model.classes is None else tuple(map(str, model.classes.tolist()))
    shown = found[:_MOST]
    figures = (Figure(drawn(partial(draw, effect, labels=labels)), _in_words(effect)) for effect in shown)
    left_out = len(found) - len(shown)
    return Section(
        "What each column adds to the score",
        (
            "A column's effect by its values, about its own mean over the public range, noise included: these are the "
            "released numbers drawn, so they may be read and published. Where few records lie a curve is mostly noise, "
            "and nothing here says where that is.",
            *((f"{left_out} more are in the model file.",) if left_out else ()),
        ),
        figures=tuple(figures),
    )


def _in_words(effect: Effect) -> str:
    low, high = effect.scores.min(), effect.scores.max()
    return f"The effect of {effect.name} on the score, over a span of {high - low:.3g}."
