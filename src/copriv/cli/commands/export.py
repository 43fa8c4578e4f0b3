"""`copriv export`: a run's model for other programs, and the run where a team keeps its runs."""

from pathlib import Path
from typing import Annotated

from copriv.cli.commands.options import ModelFile, Unfinished, check_target, model_for_use, option
from copriv.cli.console import tell
from copriv.errors import UsageError


def command(
    model: ModelFile,
    skops: Annotated[
        Path | None, option("A scikit-learn pipeline for tables, by skops: runs no code when read.", metavar="FILE")
    ] = None,
    onnx: Annotated[Path | None, option("The same for any language, by ONNX.", metavar="FILE")] = None,
    mlflow: Annotated[
        str | None, option("Where MLflow keeps runs: numbers, agreement, model, report.", metavar="URI")
    ] = None,
    experiment: Annotated[str, option("With --mlflow: the experiment.", metavar="NAME")] = "copriv",
    report: Annotated[
        Path | None, option("With --mlflow: a report of this run to keep beside it.", metavar="FILE")
    ] = None,
    unfinished: Unfinished = False,
) -> None:
    """Write a run's model for scikit-learn (skops) or ONNX, or log the run with MLflow."""
    from copriv.network.exports import log_to_mlflow, save_onnx, save_skops

    if skops is None and onnx is None and mlflow is None:
        raise UsageError("export: say where to: --skops FILE, --onnx FILE, or --mlflow URI")
    for name, file in (("--skops", skops), ("--onnx", onnx)):
        check_target(name, file, model)
    if report is not None and (mlflow is None or not report.is_file()):
        raise UsageError(f"--report: {report} goes to MLflow with the run: give --mlflow, and a file that is there")
    loaded = model_for_use(model, unfinished)
    if loaded.at_home:
        if mlflow is not None:
            raise UsageError(
                f"--mlflow: an owner made {model} at home from its own records; it is not private and must not leave. "
                "Give the common model, as copriv learner wrote it"
            )
        for file in filter(None, (skops, onnx)):
            if file.is_file():
                file.unlink()  # a process that has it open must not read the new content
            file.touch(0o600)  # before anything is written to it
    if skops is not None:
        save_skops(loaded, skops)
        tell(f"Wrote {skops}")
    if onnx is not None:
        prediction, score = save_onnx(loaded, onnx)
        tell(f"Wrote {onnx}: inputs are the columns by name, outputs {prediction} and {score}")
    if mlflow is not None:
        tell(f"Logged as MLflow run {log_to_mlflow(loaded, mlflow, experiment, model, report)}")
