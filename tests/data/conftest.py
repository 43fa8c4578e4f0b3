"""A PostgreSQL server that the tests start and stop."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="the extra [sql] is not installed")
    from benchmarks.postgresql import server

    try:
        with server() as address:
            yield address
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
