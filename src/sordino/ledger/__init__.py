"""What each data set has spent, who may spend it, and the block in which releases are charged."""
