"""Train on sensitive records; release models with a guarantee that anyone can re-check."""
