"""Private models in scikit-learn's form. Whoever asks for one loads that one, through `sordino` or its module."""
