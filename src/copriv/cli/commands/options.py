"""Options of several commands, each with one meaning, help and COPRIV_* variable, and checks of their values."""

import os
import re
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copriv.errors import InvalidInput, UsageError

if TYPE_CHECKING:
    from copriv.network.keys import Keys


def packaged_text(name: str) -> str:
    """The text of a file that comes with the commands."""
    return files("copriv.cli.commands").joinpath(name).read_text(encoding="utf-8")


def out_folder(also: str) -> Any:
    """The option `--out DIR`; `also`: its help."""
    return typer.Option("--out", metavar="DIR", file_okay=False, help=also, envvar="COPRIV_OUT", callback=_folder)


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
    """The option `--head HASH` of a ledger or a run; `what`: its help."""
    return typer.Option("--head", metavar="HASH", help=what, callback=_head)


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
    Path,
    typer.Argument(metavar="AGREEMENT", help="The agreement, a TOML file.", envvar="COPRIV_AGREEMENT", readable=False),
]
AgreementOption = typer.Option(
    "--agreement", metavar="AGREEMENT", help="Your own copy of the agreement, a TOML file.", envvar="COPRIV_AGREEMENT"
)
# More runs than this would exceed the memory and add no precision.
Runs = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many independent runs.", envvar="COPRIV_RUNS")]
PublicRuns = Annotated[
    int, typer.Option(min=10, max=1_000_000, help="Simulated runs on the public rows.", envvar="COPRIV_RUNS")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.", envvar="COPRIV_JSON")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Threads; all processors when not given.", envvar="COPRIV_WORKERS")
]
KeysFolder = Annotated[
    Path | None,
    typer.Option("--keys", metavar="DIR", help="This party's folder of keys.", envvar="COPRIV_KEYS", file_okay=False),
]
CaOfKeys = Annotated[
    Path | None,
    typer.Option("--keys", metavar="DIR", help="Your folder of keys, for its ca.pem.", envvar="COPRIV_KEYS"),
]
LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="An owner's ledger file.", envvar="COPRIV_LEDGER")]
WitnessFolder = Annotated[
    Path | None,
    typer.Option(
        "--witness", metavar="DIR", help="Where the ledger's witness is kept; the folder of the keys.",
        envvar="COPRIV_WITNESS", file_okay=False,
    ),
]  # fmt: skip
Head = Annotated[str | None, head_option("A head that was written down elsewhere.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="The model's file that copriv learner wrote.")]
ModelOfRun = Annotated[
    Path | None, typer.Option("--model", metavar="FILE", help="The run's model; RUN's name + .json, if there is one.")
]
OwnerName = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="The owner; as the keys or their folder name it.", envvar="COPRIV_OWNER"
    ),
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The file of `copriv learner --store`.")]
OwnTable = Annotated[Path, typer.Option("--data", metavar="TABLE", help="This owner's own rows, .csv or .parquet.")]
OwnModel = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the own model goes; it must not leave.")]
LedgerOption = typer.Option(metavar="FILE", help="This data's ledger.", envvar="COPRIV_LEDGER")
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy", metavar="FILE", help="What this owner allows; policy.toml in the keys' folder, if there is one.",
        envvar="COPRIV_POLICY",
    ),
]  # fmt: skip
Query = Annotated[str, typer.Option(metavar="SQL", help="The rows to read from a data base.", envvar="COPRIV_QUERY")]
Memory = Annotated[
    float | None,
    typer.Option(
        metavar="MB", min=0, help="Read larger tables in blocks, for each answer anew.", envvar="COPRIV_MEMORY"
    ),
]
JsonLogs = Annotated[
    bool,
    typer.Option(
        "--json-logs", help="Log one JSON object a line.", envvar="COPRIV_JSON_LOGS", callback=_json_logs, is_eager=True
    ),
]
Stay = Annotated[
    bool,
    typer.Option("--stay", help="After a run, wait for the next agreement in the same file.", envvar="COPRIV_STAY"),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:]PORT", help="Serve metrics, health and readiness there; HOST: this machine alone.",
        envvar="COPRIV_METRICS",
    ),
]  # fmt: skip
Unfinished = Annotated[bool, typer.Option("--unfinished", help="Use the model although its run did not finish.")]


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
