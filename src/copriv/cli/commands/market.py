"""`copriv market AGREEMENT`: who joins, at which ε, and who pays whom, by what owners state."""

from pathlib import Path
from typing import Annotated

from copriv.agreement import Agreement
from copriv.cli.commands.options import AgreementFile, AsJson, PublicRuns, option, out_folder
from copriv.cli.console import answer, progress
from copriv.cli.output import csv_text, keep
from copriv.display.market import told
from copriv.errors import UsageError
from copriv.market import MECHANISMS, market


def command(
    agreement: AgreementFile,
    mechanism: Annotated[
        str, option(f"The one shown owner by owner: {', '.join(MECHANISMS)}.", metavar="NAME")
    ] = "shapley",
    runs: PublicRuns = 128,
    seed: Annotated[int, option("Of simulated runs and worlds.", env="SEED", min=0)] = 0,
    as_json: AsJson = False,
    directory: Annotated[
        Path | None, out_folder("Also write market.json, market.csv and the proposed agreement there.")
    ] = None,
) -> None:
    """A data market: by what owners state, who joins, at which epsilon, and who pays whom."""
    if mechanism not in MECHANISMS:
        raise UsageError(f"--mechanism: must be one of {', '.join(MECHANISMS)}, not {mechanism!r}")
    with progress("forecasting"):
        offer = market(Agreement.load(agreement), runs=runs, seed=seed)
    document = offer.to_json()

    def files() -> dict[str, bytes]:
        made = {
            "market.json": document.encode() + b"\n",
            "market.csv": csv_text(offer.to_frame("owners", backend="pyarrow").to_pydict()).encode(),
        }
        if proposed := offer.proposed(mechanism):
            made["proposed.toml"] = proposed.to_toml().encode()
        return made

    keep(directory, files)
    answer(as_json, document, told(offer, mechanism))
