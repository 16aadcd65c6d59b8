"""The tables and figures of the five papers, measured again cell by cell (`sordino reproduce`)."""
