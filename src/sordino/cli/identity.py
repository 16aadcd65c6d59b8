"""`sordino identity`: a key of one's own, to sign certificates of models and to take part in federations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.console import say


def identity(
    name: Annotated[str, typer.Argument(help="The name, as others know it.")],
    folder: Annotated[Path, typer.Option(help="Where the key and the certificate are kept.")],
    number: Annotated[
        int | None, typer.Option(help="For a federation: its place in the list of members, from 1; all agree on it.")
    ] = None,
    days: Annotated[int, typer.Option(help="How long the certificate is valid.")] = 365,
) -> None:
    """Make a key and its certificate. The key never leaves the folder; the certificate is for everybody."""
    from sordino.identity import CERTIFICATE, Identity

    made = Identity.create(folder, name, number, days)
    say(f"Certificate of {name}{'' if number is None else f', number {number}'}: {folder / CERTIFICATE}")
    say(f"Fingerprint: {made.face.fingerprint}", style="bold")
    if number is None:
        say(
            f"Next:  sordino fit DATA .. --sign {folder}    and make the fingerprint known to whoever gets your models."
        )
    else:
        say("Next:  send the certificate to whoever writes the plan, and read the fingerprint out to them.")
