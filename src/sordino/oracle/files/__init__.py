"""Records that stay in files, and the oracle that reads them block by block."""
