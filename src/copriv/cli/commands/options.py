"""Options of several commands, each with one meaning, help and COPRIV_* variable, and checks of their values."""

import os
import re
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copriv.cli.console import log
from copriv.errors import InvalidInput, UsageError

if TYPE_CHECKING:
    from copriv.network.keys import Keys
    from copriv.network.model import Model


def packaged_text(name: str) -> str:
    """The text of a file that comes with the commands."""
    return files("copriv.cli.commands").joinpath(name).read_text(encoding="utf-8")


def option(help: str, *names: str, env: str = "", **more: Any) -> Any:
    """An option of a command. env: its environment variable, without COPRIV_; the rest as Typer's."""
    return typer.Option(*names, help=help, envvar=f"COPRIV_{env}" if env else None, **more)


def argument(help: str, *, env: str = "", **more: Any) -> Any:
    """An argument of a command, as `option`."""
    return typer.Argument(help=help, envvar=f"COPRIV_{env}" if env else None, **more)


def out_folder(also: str) -> Any:
    """The option `--out DIR`; `also` is its help."""
    return option(also, "--out", env="OUT", metavar="DIR", file_okay=False, callback=_folder)


def _folder(path: Path | None) -> Path | None:
    """Check, before anything is computed, that a folder can be made there. Raises UsageError where it cannot."""
    if path is None:
        return None
    there = next((one for one in (path, *path.parents) if one.exists()), Path())
    if not there.is_dir():
        raise UsageError(f"--out: {there} is a file, so no folder can be made at {path}; choose another one")
    if not _can_be_written(there / "any"):
        raise UsageError(f"--out: nothing can be written to {there}, so not to {path}; choose another folder")
    return path


def head_option(what: str) -> Any:
    """The option `--head HASH` of a ledger or a run; `what` is its help."""
    return option(what, "--head", metavar="HASH", callback=_head)


def _head(head: str | None) -> str | None:
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise UsageError(
            f"--head: a head has 64 hexadecimal digits, not {head!r}; `copriv ledger show` and `copriv verify` print it"
        )
    return head


def _json_logs(wanted: bool) -> bool:
    if wanted:
        from copriv.cli.console import json_logs

        json_logs()
    return wanted


AgreementFile = Annotated[
    Path, argument("The agreement, a TOML file.", env="AGREEMENT", metavar="AGREEMENT", readable=False)
]
AgreementOption = option(
    "Your own copy of the agreement, a TOML file.", "--agreement", env="AGREEMENT", metavar="AGREEMENT"
)
# More runs than this would exceed the memory and add no precision.
Runs = Annotated[int, option("How many independent runs.", env="RUNS", min=1, max=1_000_000)]
PublicRuns = Annotated[int, option("Simulated runs on the public rows.", env="RUNS", min=10, max=1_000_000)]
AsJson = Annotated[bool, option("Print JSON and nothing else.", "--json", env="JSON")]
Workers = Annotated[int | None, option("Threads; all processors when not given.", env="WORKERS", min=1)]
KeysFolder = Annotated[
    Path | None, option("This party's folder of keys.", "--keys", env="KEYS", metavar="DIR", file_okay=False)
]
CaOfKeys = Annotated[Path | None, option("Your folder of keys, for its ca.pem.", "--keys", env="KEYS", metavar="DIR")]
LedgerPath = Annotated[Path, argument("An owner's ledger file.", env="LEDGER", metavar="LEDGER")]
WitnessFolder = Annotated[
    Path | None,
    option(
        "Where the ledger's witness is kept; the folder of the keys.",
        "--witness",
        env="WITNESS",
        metavar="DIR",
        file_okay=False,
    ),
]
Head = Annotated[str | None, head_option("A head that was written down elsewhere.")]
ModelFile = Annotated[Path, argument("The model's file that copriv learner wrote.", metavar="MODEL")]
ModelOfRun = Annotated[
    Path | None, option("The run's model; RUN's name + .json, if there is one.", "--model", metavar="FILE")
]
OwnerName = Annotated[
    str | None, option("The owner; as the keys or their folder name it.", "--name", env="OWNER", metavar="NAME")
]
RunPath = Annotated[Path, argument("The file of `copriv learner --store`.", metavar="RUN")]
OwnTable = Annotated[Path, option("This owner's own rows, .csv or .parquet.", "--data", metavar="TABLE")]
OwnModel = Annotated[Path, option("Where the own model goes; it must not leave.", "--out", metavar="FILE")]
LedgerOption = option("This data's ledger.", env="LEDGER", metavar="FILE")
PolicyFile = Annotated[
    Path | None,
    option(
        "What this owner allows; policy.toml in the keys' folder, if there is one.",
        "--policy",
        env="POLICY",
        metavar="FILE",
    ),
]
Query = Annotated[str, option("The rows to read from a data base.", env="QUERY", metavar="SQL")]
Memory = Annotated[
    float | None, option("Read larger tables in blocks, for each answer anew.", env="MEMORY", metavar="MB", min=0)
]
JsonLogs = Annotated[
    bool, option("Log one JSON object a line.", "--json-logs", env="JSON_LOGS", callback=_json_logs, is_eager=True)
]
Stay = Annotated[bool, option("After a run, wait for the next agreement in the same file.", "--stay", env="STAY")]
Metrics = Annotated[
    str | None,
    option(
        "Serve metrics, health and readiness there; HOST: this machine alone.", env="METRICS", metavar="[HOST:]PORT"
    ),
]
Unfinished = Annotated[bool, option("Use the model although its run did not finish.", "--unfinished")]


def check_address(option: str, address: str, least_port: int) -> None:
    """Raise UsageError unless the address is HOST:PORT; gRPC would accept other forms."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not least_port <= int(port) <= 65535:
        raise UsageError(f"{option}: must be HOST:PORT with a port of {least_port} to 65535, not {address!r}")


def check_target(option: str, file: Path | None, *read: Path) -> None:
    """Raise UsageError, before anything is computed, for a file that cannot be written or that the command reads (`read`)."""
    if file is None or str(file) == "-":
        return
    if file.is_dir():
        raise UsageError(f"{option}: {file} is a folder; give the name of a file in it")
    if not file.parent.is_dir():
        raise UsageError(f"{option}: there is no folder {file.parent}; make it, or give a path in one that exists")
    if not _can_be_written(file):
        raise UsageError(f"{option}: {file} cannot be written here; ask for the right to, or name a file elsewhere")
    same = (file.resolve() == one.resolve() or (file.exists() and one.exists() and file.samefile(one)) for one in read)
    if any(same):
        raise UsageError(f"{option}: {file} is read by this command and would be overwritten; name another file")


def beside(agreement: Path, named: str) -> Path:
    """The path of a file that an agreement names, in the agreement's folder if it exists there."""
    path = agreement.parent / named
    if path.exists():
        return path
    return Path(named)


def _can_be_written(file: Path) -> bool:
    if file.exists():
        return os.access(file, os.W_OK)
    try:  # the disk may be read-only, whatever the permissions
        with tempfile.TemporaryFile(dir=file.parent):
            return True
    except OSError:
        return False


def party_keys(folder: Path | None, role: str, name: str | None = None) -> "Keys":
    """The keys in a folder. Raises KeysRefused unless they are those of this role and name."""
    from copriv.network.keys import Keys, KeysRefused

    if folder is None:
        raise KeysRefused(f"--keys: the {role} speaks with its keys only; give its folder (copriv init --network)")
    keys = Keys.load(folder)
    if keys.party.role != role:
        raise KeysRefused(
            f"{folder}: the certificate is for {keys.party.role}s, and this is the {role}'s command; give the {role}'s own keys"
        )
    if name is not None and name != keys.name:
        raise KeysRefused(
            f"--name: {name!r}, but the certificate in {folder} is that of {keys.name!r}; give its own keys"
        )
    return keys


def policy_file(path: Path | None, keys: Path | None) -> Path | None:
    """Path of an owner's policy: the given one, else policy.toml in the folder of its keys, if there is one."""
    if path is None and keys is not None and (keys / "policy.toml").is_file():
        return keys / "policy.toml"
    return path


def model_for_use(path: Path, unfinished: bool) -> "Model":
    """The model of a file (`Model.load`); one of a pilot alone is said to be that on standard error."""
    from copriv.network.model import Model

    model = Model.load(path, unfinished)
    tell_if_of_pilot(path, model)
    return model


def tell_if_of_pilot(path: Path, model: "Model") -> None:
    """Say on standard error of a model of a pilot alone that it is that, whether or not its run could go on."""
    from copriv.display.run import of_pilot_alone

    kept = bool(model.record.get("kept"))
    if kept or len(model.record.get("phases", ())) == 1:  # a run of one phase has no list of them
        how = "stopped after its pilot" if kept else "did not go beyond its pilot"
        log(f"{path}: the run {how}. {of_pilot_alone(model.agreement.mechanism, model.at_home)}")


def authority_in(keys: Path | None, file: Path | None = None) -> bytes | None:
    """The authority's certificate in `file`, or in a folder of keys; None without either. Raises InvalidInput."""
    if file is None and keys is None:
        return None
    path = file or Path(keys or "", "ca.pem")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{path}: cannot be read ({error.strerror}); give the authority's certificate, or a folder of keys with its ca.pem"
        ) from None
