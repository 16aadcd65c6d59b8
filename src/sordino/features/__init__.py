"""Maps of a picture to a row of bounded norm. They look at one picture alone, so they are public and cost nothing."""

from sordino.features.hog import HOG
from sordino.features.scattering import Scattering

__all__ = ["HOG", "Scattering"]
