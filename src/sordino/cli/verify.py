"""`sordino verify`: check a guarantee again, from public numbers alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sordino.cli.console import complain, say, say_explanation

if TYPE_CHECKING:
    from sordino.certificate import Certificate, Finding
    from sordino.identity import Face


def verify(
    file: Annotated[Path, typer.Argument(help="A model file, a certificate in JSON, or a private evaluation.")],
    signer: Annotated[
        Path | None, typer.Option(help="Whose signature it must have: the certificate.pem that you have from them.")
    ] = None,
) -> None:
    """Check a certificate, or the one inside a model file. Ends with 0 if the guarantee holds and 1 if not."""
    from sordino.words import explain

    face = None if signer is None else _face(signer)
    certificate, findings = read_and_verify(file)
    if face is not None:
        findings = (*findings, _by(face, certificate))
    for finding in findings:
        say(f"{'yes' if finding.holds else 'NO '}   {finding.sentence}", style="" if finding.holds else "bold red")
    if not all(finding.holds for finding in findings):
        complain("NOT VERIFIED: the guarantee does not hold as stated.")
        raise typer.Exit(1)
    say(f"VERIFIED: {certificate.statement}", style="bold green")
    say_explanation(explain(certificate, findings))


def read_and_verify(file: Path) -> tuple[Certificate, tuple[Finding, ...]]:
    """The certificate in a file, and every check of it; ends with 1 where there is none."""
    from sordino.wire import LONGEST

    with file.open("rb") as start:
        # a character takes four bytes at most: what is beyond is refused unread
        content = start.read(4 * LONGEST + 1)
    try:
        return _model(file) if content.startswith(b"PK") else _certificate(file, content)
    except ValueError as error:
        _nothing_to_verify(str(error))
    except (TypeError, AttributeError, ArithmeticError, LookupError, RecursionError):
        # a stranger's file may hold anything under a digest that fits
        _nothing_to_verify(f"{file}: this certificate is malformed: its values are not of the kinds that one has.")


def _face(path: Path) -> Face:
    from sordino.identity import Face

    try:
        return Face(path.read_text())
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a certificate in PEM form: it is not text.") from None


def _by(face: Face, certificate: Certificate) -> Finding:
    from sordino.certificate import Finding
    from sordino.identity import Face

    same = certificate.signature is not None and Face(certificate.signature.signer).fingerprint == face.fingerprint
    return Finding(same, f"{face.name} {'is' if same else 'is not'} who signed it.")


def _nothing_to_verify(sentence: str) -> NoReturn:
    complain(f"NO    {sentence}")
    complain("NOT VERIFIED: there is no intact certificate here, so nothing is guaranteed.")
    raise typer.Exit(1)


def _model(file: Path) -> tuple[Certificate, tuple[Finding, ...]]:
    from sordino.model_file import read_model, verify_model

    model = read_model(file)
    return model.certificate, verify_model(model)


def _certificate(file: Path, content: bytes) -> tuple[Certificate, tuple[Finding, ...]]:
    from sordino.certificate import Certificate, verify as check
    from sordino.evaluation_file import EVALUATION

    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{file}: this is not a certificate: it is not text.") from None
    try:
        if re.match(EVALUATION.pattern, content):
            return _evaluation(text)
        certificate = Certificate.from_json(text)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return certificate, check(certificate)


def _evaluation(text: str) -> tuple[Certificate, tuple[Finding, ...]]:
    from sordino.evaluation_file import Evaluation, verify_evaluation

    evaluation = Evaluation.from_json(text)
    findings = verify_evaluation(evaluation)
    assert evaluation.certificate is not None
    return evaluation.certificate, findings
