"""A PostgreSQL server of its own, for a test or a benchmark: started on a free port, and removed at the end."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg


@contextmanager
def server() -> Iterator[str]:
    """The address of the server. Raises FileNotFoundError where PostgreSQL is not installed.

    It will not run as root, so root lends it another user's name.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = shutil.which("initdb") or (str(found[-1]) if found else None)
    if initdb is None:
        raise FileNotFoundError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="copriv-postgresql-", dir="/tmp"))  # a socket's path is short
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        os.chown(folder, 65534, 65534)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    data, running = folder / "data", None
    try:
        made = [initdb, "-D", data, "-U", "owner", "-A", "trust", "--no-sync"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder, **user)
        beside = Path(initdb).parent / "postgres"
        postgres = beside if beside.exists() else Path(initdb).resolve().parent / "postgres"
        running = subprocess.Popen(
            [postgres, "-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **user,
        )  # fmt: skip
        address = f"postgresql://owner@127.0.0.1:{port}/postgres"
        for _ in range(200):
            with suppress(psycopg.OperationalError):
                psycopg.connect(address, connect_timeout=1).close()
                break
            if running.poll() is not None:
                raise RuntimeError("PostgreSQL ended before it answered")
            time.sleep(0.05)
        yield address
    finally:
        if running is not None:
            running.terminate()
            running.wait(20)
        shutil.rmtree(folder, ignore_errors=True)
