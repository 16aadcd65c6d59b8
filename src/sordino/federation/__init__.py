"""Several owners who may not share records: what they agree on, how they add up, and noise that none of them knows."""
