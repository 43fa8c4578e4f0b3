"""Apps for a consortium that runs Flower: one Flower message to an owner starts its session. Needs the extra [flower].

    SuperLink ── ServerApp ── copriv learner ◄─────┐
        │ one message: fingerprint, address        │ gradients: copriv's own stream, mutual TLS
    SuperNode ── ClientApp ── copriv owner serve ──┘

Both apps run the copriv that is installed on their own side, and wait for it to end. The Flower app that a consortium
ships consists of a pyproject.toml, which names `server_app` and `client_app` of this module; docs/how-to/run-with-flower.md.

The learner's options are the run's configuration; an owner's are those of its SuperNode (`--node-config`) and its own
COPRIV_* variables. The message contains the agreement's fingerprint and the learner's address, both of which an owner
compares with its own; it cannot say which file to read, what to spend or where to send. The reply is an exit code; the
reasons are in the owner's log.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.errors import AgreementError, CoprivError, Unreachable, UsageError
from copriv.formatting.sanitize import printable
from copriv.network.policy import PolicyRefused

__all__ = ["client_app", "server_app"]  # noqa: F822 (Flower finds them here without importing; made in __getattr__)

_ACTION, _RECORD = "serve", "copriv"
# Flower may end an app's process without warning (os._exit, SIGKILL). That closes the pipe to this command's standard
# input, which ends the command as Ctrl-C would.
_BELOW = """
import os, signal, threading
def watch():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, daemon=True).start()
from copriv.cli import main
main()
"""
# -P: files in the working folder are not imported as modules.
_COPRIV = (sys.executable, "-P", "-c", _BELOW)
_LOOK_SECONDS, _REPLY_SECONDS = 1.0, 30.0

Options = Mapping[str, str | int | float | bool]


def __getattr__(name: str) -> Any:
    """`server_app` and `client_app`, made on access, because copriv does not depend on Flower."""
    if name == "server_app":
        from flwr.serverapp import ServerApp

        server = ServerApp()
        server.main()(lead)
        return server
    if name == "client_app":
        from flwr.clientapp import ClientApp

        client = ClientApp()
        client.query(_ACTION)(serve)
        return client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def lead(grid: Any, context: Any) -> None:
    """The ServerApp: start the learner, invite each node once, also later ones, and wait until the run is over.

    Raises Unreachable where the learner does not finish its run.
    """
    from flwr.app import ConfigRecord, Message, RecordDict

    command, invitation = learner_command(context.run_config)
    invited: set[int] = set()
    waiting: set[str] = set()
    with _running(command, subprocess.PIPE) as learner:
        # Flower shows what its own process prints (`flwr log`), but not the output of child processes.
        printer = threading.Thread(target=_print_lines, args=(learner.stdout,), daemon=True)
        printer.start()
        while learner.poll() is None:
            new = sorted(set(grid.get_node_ids()) - invited)
            content = RecordDict({_RECORD: ConfigRecord(invitation)})
            sent = list(grid.push_messages([Message(content, node, f"query.{_ACTION}") for node in new]))
            accepted = {node: identity for node, identity in zip(new, sent, strict=True) if identity}
            invited |= set(accepted)
            waiting |= set(accepted.values())
            waiting -= _replies(grid, waiting)
            time.sleep(_LOOK_SECONDS)
        printer.join(_REPLY_SECONDS)
    until = time.monotonic() + _REPLY_SECONDS
    while waiting and time.monotonic() < until:
        waiting -= _replies(grid, waiting)
        time.sleep(_LOOK_SECONDS)
    if learner.returncode != 0:
        raise Unreachable(f"copriv learner ended with exit code {learner.returncode}; its log says why")


def serve(message: Any, context: Any) -> Any:
    """The ClientApp: run this owner's `copriv owner serve` until the run is over; the reply is its exit code."""
    from flwr.app import ConfigRecord, Message, RecordDict

    try:
        command = owner_command(dict(message.content.config_records.get(_RECORD, {})), context.node_config)
        with _running(command) as owner:
            # Flower stops an app by a signal that it raises in another thread, which a blocking wait would not see.
            while (code := owner.poll()) is None:
                time.sleep(_LOOK_SECONDS)
    except CoprivError as error:
        print(f"copriv: {printable(str(error), 1000)}", file=sys.stderr, flush=True)
        code = error.exit_code
    return Message(RecordDict({_RECORD: ConfigRecord({"exit": code})}), reply_to=message)


def learner_command(options: Options, environment: Mapping[str, str] = os.environ) -> tuple[list[str], dict[str, str]]:
    """The learner's command, and the invitation to each owner.

    options: those of `copriv learner`, without --, with `agreement`, and with `address`, the learner's address for owners
    where it is not that of `listen`. Raises UsageError, and AgreementError as `Agreement.load`.
    """
    agreement = _own("agreement", options, environment)
    listen = _own("listen", options, environment)
    invitation = {
        "fingerprint": Agreement.load(Path(agreement)).fingerprint,
        "learner": str(options.get("address") or listen),
    }
    rest = {key: value for key, value in options.items() if key not in ("agreement", "address")}
    return [*_COPRIV, "learner", agreement, *_words(rest)], invitation


def owner_command(
    invitation: Mapping[str, object], options: Options, environment: Mapping[str, str] = os.environ
) -> list[str]:
    """The owner's command, made from its own options alone.

    invitation: the content of the Flower message, which is the agreement's `fingerprint` and the `learner`'s address.
    options: those of `copriv owner serve`, without --.
    Raises PolicyRefused for an invitation to another agreement or learner than this owner's.
    """
    if set(invitation) != {"fingerprint", "learner"}:
        raise PolicyRefused(
            f"the message says {', '.join(sorted(map(str, invitation))) or 'nothing'}; it may say fingerprint and "
            "learner, and nothing else"
        )
    own = Agreement.load(Path(_own("agreement", options, environment))).fingerprint
    if invitation["fingerprint"] != own:
        raise AgreementError(
            f"fingerprint: the agreements differ: the message's is {str(invitation['fingerprint'])[:16]!r}…, this "
            f"owner's {own[:16]}…; exchange the files again"
        )
    learner = _own("learner", options, environment)
    if invitation["learner"] != learner:
        raise PolicyRefused(
            f"learner: the message names {str(invitation['learner'])[:100]!r}, this owner dials {learner} only; change "
            "the node's configuration if the learner has moved"
        )
    return [*_COPRIV, "owner", "serve", *_words(options)]


def _own(key: str, options: Options, environment: Mapping[str, str]) -> str:
    """An option from this side's own configuration, or from its environment variable."""
    value = str(options.get(key) or environment.get(f"COPRIV_{key.upper()}", ""))
    if not value:
        raise UsageError(f"{key}: not in this side's Flower configuration, and COPRIV_{key.upper()} is not set")
    return value


def _words(options: Options) -> list[str]:
    """Options as arguments of a command: true gives a flag; empty and false ones are omitted."""
    given = [(key, value) for key, value in options.items() if value is not False and value != ""]
    return [f"--{key}" if value is True else f"--{key}={value}" for key, value in given]


@contextmanager
def _running(command: list[str], output: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    """A process that does not outlive this block, nor this process."""
    errors = output and subprocess.STDOUT  # to the same pipe
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _print_lines(stream: Iterable[str]) -> None:
    for line in stream:
        print(line, end="", flush=True)


def _replies(grid: Any, waiting: set[str]) -> set[str]:
    """The messages that have a reply; prints each reply."""
    answered: set[str] = set()
    if not waiting:
        return answered
    for reply in grid.pull_messages(waiting):
        answered.add(reply.metadata.reply_to_message_id)
        how = reply.error.reason if reply.has_error() else f"exit code {reply.content[_RECORD]['exit']}"
        print(f"node {reply.metadata.src_node_id}: its session is over ({printable(how)})", flush=True)
    return answered
