"""`copriv own-learners AGREEMENT`: every owner learns for itself from shared answers; for whom does that pay?"""

import json
from pathlib import Path
from typing import Annotated

from copriv.agreement import Agreement
from copriv.cli.commands.options import AgreementFile, AsJson, PublicRuns, option, out_folder
from copriv.cli.console import answer, progress
from copriv.cli.output import keep
from copriv.display.forecast import own_learners
from copriv.forecast.own_learners import forecast_own_learners


def command(
    agreement: AgreementFile,
    runs: PublicRuns = 128,
    seed: Annotated[int, option("Of simulated runs and worlds.", env="SEED", min=0)] = 0,
    as_json: AsJson = False,
    directory: Annotated[Path | None, out_folder("Also write JSON, a picture and the agreement there.")] = None,
) -> None:
    """Without a central model: each owner answers once, and learns from everybody's answers. For whom does it pay?"""
    with progress("forecasting"):
        outlook = forecast_own_learners(Agreement.load(agreement), runs=runs, seed=seed)
    document = json.dumps(outlook.to_dict(), indent=2)

    def files() -> dict[str, bytes]:
        from copriv.pictures.forecast import owners_apart
        from copriv.pictures.style import png  # matplotlib, for those who want a picture

        return {
            "own-learners.json": document.encode() + b"\n",
            "own-learners.png": png(owners_apart(outlook), f"copriv own-learners {agreement.name}"),
            "agreement.toml": outlook.agreement.to_toml().encode(),
        }

    keep(directory, files)
    answer(as_json, document, own_learners(outlook))
