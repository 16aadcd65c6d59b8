"""The commands, and how they end: 0, 1 when a guarantee does not hold, 2 with a sentence when the input is not right.

Everything heavy is imported inside the commands, so that help appears at once.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sordino.cli import (
    account,
    data,
    evaluate,
    explain,
    federation,
    fit,
    identity,
    ledger,
    plan,
    predict,
    report,
    reproduce,
    schema,
    verify,
)
from sordino.cli.console import complain, say

_REMEDY = "pip install 'sordino[cli]'."


class Sentences(TyperGroup):
    """Errors that a user can mend are printed as the sentence they carry, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except (BrokenPipeError, typer.Exit, typer.Abort):
                raise
            except (ValueError, OSError, RuntimeError) as error:
                complain(" ".join([f"Error: {_sentence(error)}", *getattr(error, "__notes__", ())]))
            except KeyboardInterrupt as error:
                complain(" ".join(["Stopped.", *getattr(error, "__notes__", ())]))
                raise typer.Exit(130) from None
            except ModuleNotFoundError as error:
                # what belongs to another extra says so itself
                said = str(error) if "pip install" in str(error) else f"{error.name} is not installed: {_REMEDY}"
                complain(f"Error: {said}")
        raise typer.Exit(2)


app = typer.Typer(
    name="sordino",
    cls=Sentences,
    help="Train models on sensitive records and release them with a guarantee that anyone can re-check.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    fit.fit,
    predict.predict,
    evaluate.evaluate,
    verify.verify,
    explain.explain,
    report.report,
    account.account,
    plan.plan,
    schema.schema,
    identity.identity,
    reproduce.reproduce,
):
    app.command()(command)
app.add_typer(ledger.app, name="ledger")
app.add_typer(federation.app, name="federation")
app.add_typer(data.app, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"sordino {version('sordino')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def _sentence(error: Exception) -> str:
    if type(error).__module__.startswith("pyarrow"):
        # what pyarrow says may quote a cell
        return "the table could not be read."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return str(error)


_show_other_warning = warnings.showwarning


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    if category.__module__.startswith("sordino"):
        complain(f"Warning: {message}")
    else:
        _show_other_warning(message, category, filename, lineno, file, line)
