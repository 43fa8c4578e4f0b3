"""Where a consortium runs Flower already: one Flower message to an owner opens its session. Needs the extra [flower].

    SuperLink ── ServerApp ── copriv learner ◄─────┐
        │ one message: fingerprint, address        │ gradients: copriv's own stream, mutual TLS
    SuperNode ── ClientApp ── copriv owner serve ──┘

Both apps start the command that their own side has installed and wait for it to end. What a Flower app of a consortium
ships is its pyproject.toml, which names `server_app` and `client_app` of this module; docs/how-to/run-with-flower.md.

The learner's options are the run's configuration; an owner's are those of its SuperNode (`--node-config`) and its own
COPRIV_* variables. The message may say two things, and an owner checks both against its own: it never says which file
to read, what to spend or where to send. The reply is an exit code; the reasons stay in the owner's log.
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
# Flower may end an app's process at once (os._exit, SIGKILL). Whatever ends it closes the pipe that is this command's
# standard input, and that ends the command as Ctrl-C would.
_BELOW = """
import os, signal, threading
def watch():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, daemon=True).start()
from copriv.cli import main
main()
"""
# -P: a file in the working folder is not taken for a module of copriv.
_COPRIV = (sys.executable, "-P", "-c", _BELOW)
_LOOK_SECONDS, _REPLY_SECONDS = 1.0, 30.0

Options = Mapping[str, str | int | float | bool]


def __getattr__(name: str) -> Any:
    """`server_app` and `client_app`, made when Flower asks: the rest of copriv does without Flower."""
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
    """The ServerApp: start the learner, tell each node once where it listens, wait until the run is over.

    Nodes that come later are told when they come. Raises Unreachable where the learner does not finish its run.
    """
    from flwr.app import ConfigRecord, Message, RecordDict

    command, invitation = learner_command(context.run_config)
    told: set[int] = set()
    waiting: set[str] = set()
    with _running(command, subprocess.PIPE) as learner:
        # Flower shows what its own process prints (`flwr log`), and drops what a process below it does.
        printer = threading.Thread(target=_print_lines, args=(learner.stdout,), daemon=True)
        printer.start()
        while learner.poll() is None:
            new = sorted(set(grid.get_node_ids()) - told)
            content = RecordDict({_RECORD: ConfigRecord(invitation)})
            sent = list(grid.push_messages([Message(content, node, f"query.{_ACTION}") for node in new]))
            taken = {node: identity for node, identity in zip(new, sent, strict=True) if identity}
            told |= set(taken)
            waiting |= set(taken.values())
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
            # Flower stops an app by a signal that it raises in another thread: this one must not sleep in the system.
            while (code := owner.poll()) is None:
                time.sleep(_LOOK_SECONDS)
    except CoprivError as error:
        print(f"copriv: {printable(str(error), 1000)}", file=sys.stderr, flush=True)
        code = error.exit_code
    return Message(RecordDict({_RECORD: ConfigRecord({"exit": code})}), reply_to=message)


def learner_command(options: Options, environment: Mapping[str, str] = os.environ) -> tuple[list[str], dict[str, str]]:
    """The learner's command, and what each owner is told.

    options: those of `copriv learner`, without --; besides `agreement`, and `address` for the learner's address as
    owners see it, where that is not the one of `listen`. Raises UsageError, and AgreementError as `Agreement.load`.
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
    """The owner's command, made of its own options alone.

    invitation: what the Flower message says: the agreement's `fingerprint` and the `learner`'s address.
    options: those of `copriv owner serve`, without --.
    Raises PolicyRefused for an invitation to anything else than this owner's own agreement and learner.
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
    """An option from this side's own configuration, or its variable."""
    value = str(options.get(key) or environment.get(f"COPRIV_{key.upper()}", ""))
    if not value:
        raise UsageError(f"{key}: not in this side's Flower configuration, and COPRIV_{key.upper()} is not set")
    return value


def _words(options: Options) -> list[str]:
    """Options as words of a command: true is a flag, and what is empty or false is left out."""
    given = [(key, value) for key, value in options.items() if value is not False and value != ""]
    return [f"--{key}" if value is True else f"--{key}={value}" for key, value in given]


@contextmanager
def _running(command: list[str], output: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    """A process that does not outlive this block, nor this process."""
    errors = None if output is None else subprocess.STDOUT
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _print_lines(stream: Iterable[str]) -> None:
    for line in stream:
        print(line, end="", flush=True)


def _replies(grid: Any, waiting: set[str]) -> set[str]:
    """The messages that are answered; says how."""
    answered = set()
    for reply in grid.pull_messages(waiting) if waiting else ():
        answered.add(reply.metadata.reply_to_message_id)
        how = reply.error.reason if reply.has_error() else f"exit code {reply.content[_RECORD]['exit']}"
        print(f"node {reply.metadata.src_node_id}: its session is over ({printable(how)})", flush=True)
    return answered
