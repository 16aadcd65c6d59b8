"""What a notebook shows of an estimator: its promise, above scikit-learn's diagram."""

from __future__ import annotations

from typing import Any

from sordino.words import certificate_card, unfitted_card


class ShowsItsPromise:
    """For an estimator that has a `certificate_` once it is fitted."""

    def _repr_html_inner(self) -> str:
        return self._card() + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**settings)  # type: ignore[misc]
        # scikit-learn leaves it out where `display` is "text"
        return {**bundle, "text/html": self._card() + bundle["text/html"]} if "text/html" in bundle else bundle

    def _card(self) -> str:
        name, certificate = type(self).__name__, getattr(self, "certificate_", None)
        return unfitted_card(name) if certificate is None else certificate_card(name, certificate)
