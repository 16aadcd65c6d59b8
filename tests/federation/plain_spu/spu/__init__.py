"""Stands in for SPU where it is not installed: additive shares in the ring of 2^64, behind the few names that the
worker uses. The sum is checked to be compiled for the lengths it runs on."""
