"""`copriv reproduce`: the papers' figures, each as ID.csv, ID.png and ID.json."""

import json
import os
import shutil
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from joblib.externals.loky import get_reusable_executor

from copriv.cli.commands.options import AsJson
from copriv.cli.commands.service import going_on
from copriv.cli.console import complain, log, out, plain_table, progress
from copriv.errors import CoprivError, UsageError
from copriv_papers.claims import CLAIMS, answered, check
from copriv_papers.figure import Effort, Figure
from copriv_papers.figures import BEYOND, FIGURES
from copriv_papers.pages import sentence, shown, write_claims, write_gallery, write_paper, write_verdicts
from copriv_papers.papers import PAPERS, Paper
from copriv_papers.runner import Report, reproduce

THE_CLAIMS = "claims"
"""Name under which the table of claims is made."""


class Backend(StrEnum):
    """The joblib backend that runs the batches."""

    loky = "loky"
    threading = "threading"
    ray = "ray"
    dask = "dask"


def command(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID...|all|claims|paper-async|paper-sync]",
            help="Such as async-fig4; all for every figure of the papers; claims for a table of all that they say in numbers; "
            "paper-async or paper-sync for one page that goes through that paper.",
        ),
    ] = None,
    directory: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", file_okay=False, help="Where files are written.", envvar="COPRIV_OUT"),
    ] = Path("figures"),
    list_only: Annotated[bool, typer.Option("--list", help="Name the figures and leave.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs and points: all figures in a minute and a half.")
    ] = False,
    gallery: Annotated[
        Path | None,
        typer.Option(
            "--gallery", metavar="DOCS", file_okay=False, help="Also write DOCS/gallery.md with the pictures."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="NAME=PATH",
            help="The papers' own file of lending, creditcard or hospital; lending=inside: the loans in the package.",
        ),
    ] = None,
    backend: Annotated[
        Backend, typer.Option(help="What spreads the runs; ray and dask are extras.", envvar="COPRIV_BACKEND")
    ] = Backend.loky,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; one a processor when not given.", envvar="COPRIV_WORKERS")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write figures again that are finished.")] = False,
    as_json: AsJson = False,
) -> None:
    """Regenerate figures of the two papers. A finished figure is not computed again unless its settings change."""
    if list_only:
        _list(as_json)
        return
    begun = time.perf_counter(), sum(os.times()[:4])
    names, effort = figures or [], Effort(quick, _paths(data or []))
    chosen = _chosen(names)
    how: dict[str, Any] = {"workers": workers or -1, "backend": backend.value}
    reports: list[Report] = []
    failed: list[CoprivError] = []

    def cannot(identity: str, error: CoprivError) -> None:
        # A data set that is not there must not keep the other figures from being made.
        complain(f"{identity}: {error}")
        failed.append(error)

    again = "the same command goes on from there" + (", without --force" if force else "")
    with going_on(f"finished figures, and the finished runs of this one, are kept in {directory}; {again}"):
        with progress("figures") as report:
            for made in reproduce(
                chosen,
                directory,
                effort,
                force=force,
                progress=lambda name, part, whole: report(part, whole, name),
                failed=cannot,
                **how,
            ):
                reports.append(made)
                took = "finished before" if made.resumed else f"{made.seconds:.1f} s"
                log(f"{made.identity}: {made.verdict}{', a quick run' if quick else ''} ({took})")
        write_verdicts(directory, directory)
        claims = _check(directory, effort, how, gallery) if THE_CLAIMS in names else None
        pages = [_page(paper, directory, effort, how, gallery) for paper in PAPERS if paper.identity in names]
    if any(not one.resumed for one in reports):
        took = f"{time.perf_counter() - begun[0]:.0f} s, {_processor() - begun[1]:.0f} s of processor time"
        log(f"{_many(reports)}: {took}")
    if gallery is not None and reports:
        log(f"wrote {write_gallery(directory, gallery)}")
    if as_json:
        told: dict[str, Any] = {"schema": "copriv.reproduce/1", "figures": [one.document for one in reports]}
        if claims is not None:
            told["claims"] = claims["claims"]
        if pages:
            told["pages"] = [os.fspath(page) for page in pages]
        typer.echo(json.dumps(told, indent=2))
    else:
        _show(reports, claims, pages, directory)
    if failed:
        raise typer.Exit(failed[-1].exit_code)


def _processor() -> float:
    """Seconds of this process and of its workers, which end by it; without workers' where the system counts none."""
    get_reusable_executor(reuse=True).shutdown(wait=True)
    return sum(os.times()[:4])


def _many(reports: list[Report]) -> str:
    return f"{len(reports)} figure{'' if len(reports) == 1 else 's'}"


def _check(directory: Path, effort: Effort, how: dict[str, Any], docs: Path | None) -> dict[str, Any]:
    """Every sentence of both papers with a number in it; figures that it reads are made, or taken as they are."""
    with progress(THE_CLAIMS) as report:
        document = check(
            CLAIMS,
            directory,
            effort,
            progress=lambda _, part, whole: report(part, whole),
            finished=lambda one: log(f"{one.identity}: {one.verdict}"),
            **how,
        )
    if docs is not None:
        log(f"wrote {write_claims(document, docs)}")
    return document


def _page(paper: Paper, directory: Path, effort: Effort, how: dict[str, Any], docs: Path | None) -> Path:
    """One paper's page, beside its figures; with a gallery also in DOCS/papers."""
    claims = [claim for section in paper.sections for claim in paper.claims(section)]
    with progress(paper.identity) as report:
        document = answered(claims, directory, effort, progress=lambda _, part, whole: report(part, whole), **how)
    page = write_paper(paper, directory, document)
    if docs is not None:
        (docs / "papers").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, docs / "papers" / page.name)
    return page


def _chosen(names: list[str]) -> list[Figure]:
    if not names:
        raise UsageError("reproduce: name figures, or all; copriv reproduce --list names them")
    several = {"all": FIGURES, THE_CLAIMS: (), **{paper.identity: paper.figures for paper in PAPERS}}
    known = several | {figure.identity: (figure,) for figure in (*FIGURES, *BEYOND)}
    for name in names:
        if name not in known:
            raise UsageError(f"reproduce: {name!r} is not a figure; copriv reproduce --list names them")
    return list({figure.identity: figure for name in names for figure in known[name]}.values())


def _paths(given: list[str]) -> dict[str, str]:
    """Data set → the papers' own file, as named by the user."""
    paths = {}
    for pair in given:
        name, equals, path = pair.partition("=")
        if not equals or name not in ("lending", "creditcard", "hospital"):
            raise UsageError(f"--data: {pair!r} must be NAME=PATH, with lending, creditcard or hospital as the name")
        paths[name] = path
    return paths


def _list(as_json: bool) -> None:
    if as_json:
        known, more = (
            [{"id": f.identity, "source": f.source, "title": f.title, "claim": f.claim} for f in figures]
            for figures in (FIGURES, BEYOND)
        )
        typer.echo(json.dumps({"schema": "copriv.figures/1", "figures": known, "beyond": more}, indent=2))
        return
    table = plain_table("id", "source", "what", left=3)
    for figure in (*FIGURES, *BEYOND):
        table.add_row(figure.identity, figure.source, figure.title)
    out().print(table)


def _show(reports: list[Report], claims: dict[str, Any] | None, pages: list[Path], directory: Path) -> None:
    console = out()
    for one in reports:
        console.print(f"{one.identity}: {one.verdict}. {sentence(one.document['why'])}")
    if reports:
        console.print(f"\n{_many(reports)} in {directory}")
    if claims is not None:
        table = plain_table("place", "sentence", "paper", "ours", "verdict", left=5)
        for one in claims["claims"]:
            table.add_row(one["place"], one["sentence"], one["paper"], shown(one["ours"]), one["verdict"])
        console.print(table)
        console.print(f"\n{len(claims['claims'])} claims in {directory / 'claims.json'}")
        if claims["missing"]:
            fetch = " && ".join(dict.fromkeys(claims["missing"].values()))
            console.print(f"Not all data are here. Get them, then give the same command again: {fetch}", soft_wrap=True)
    for page in pages:
        console.print(f"{page}: opens in any browser, and needs no other file", soft_wrap=True)
