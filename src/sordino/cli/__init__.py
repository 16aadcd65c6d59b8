"""The command `sordino`."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from sordino.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(f"The command line needs {error.name}, which is not installed: pip install 'sordino[cli]'.")
    app()
