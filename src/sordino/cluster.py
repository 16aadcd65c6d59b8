"""Records larger than one machine, on the workers of a Ray cluster: `with connected(..) as cluster: ..`."""

from sordino.oracle.cluster import connected

__all__ = ["connected"]
