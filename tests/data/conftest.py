"""A PostgreSQL server that the tests start and stop."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of its own on a free port. It will not run as root, so root lends it another user's name."""
    psycopg = pytest.importorskip("psycopg", reason="the extra [sql] is not installed")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = shutil.which("initdb") or (str(found[-1]) if found else None)
    if initdb is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    folder = Path("/tmp") / f"copriv-postgresql-{os.getpid()}"
    folder.mkdir(mode=0o700)
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        os.chown(folder, 65534, 65534)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    data, binaries = folder / "data", Path(initdb).parent
    server = None
    try:
        subprocess.run(
            [initdb, "-D", data, "-U", "owner", "-A", "trust", "--no-sync"],
            check=True, capture_output=True, cwd=folder, **user,
        )  # fmt: skip
        postgres = (
            binaries / "postgres" if (binaries / "postgres").exists() else Path(initdb).resolve().parent / "postgres"
        )
        server = subprocess.Popen(
            [postgres, "-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **user,
        )  # fmt: skip
        address = f"postgresql://owner@127.0.0.1:{port}/postgres"
        for _ in range(200):
            try:
                psycopg.connect(address, connect_timeout=1).close()
                break
            except psycopg.OperationalError:
                assert server.poll() is None, "the server ended"
                time.sleep(0.05)
        yield address
    finally:
        if server is not None:
            server.terminate()
            server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)
