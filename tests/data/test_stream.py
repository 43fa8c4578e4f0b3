"""Tables that are read in blocks: the same records as in memory, whatever the format, and never more than a few blocks."""

import asyncio
import gc
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from copriv.agreement import Agreement
from copriv.agreement.data_terms import schema_of
from copriv.data.stream import StreamedRecords, table_chunks
from copriv.errors import AgreementError, DataError, QueryRefused
from copriv.losses import Custom, Hinge, Logistic, Squared
from copriv.model.records import BLOCK, InBlocks, Records
from copriv.network.agent import OwnerAgent, respond
from copriv.network.messages import Refusal, Welcome, decode, encode
from copriv.network.setup import owner_records, streamed_records
from copriv.network.transport import Link
from copriv.owner import Owner
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.protocol import Query
from copriv.types import Array
from ledger_files import opened
from memory_network import MemoryNetwork
from unsigned import unsigned

N = 2 * BLOCK + 500


def agreement(records: int = N, **owner: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 4, "answers": 4, "step": 1.0},
            "model": {"loss": "logistic", "gradient_bound": 0.3, "intercept": True},
            "data": {
                "components": 0,
                "feature_bound": 0.9,
                "features": ["income", "rate", "grade"],
                "target": "repaid",
                "bounds": {"income": [0, 100], "rate": [-1, 1]},
                "categories": {"grade": ["A", "B", "C"], "repaid": ["no", "yes"]},
                "ordered": ["grade"],
                "missing": {"rate": 0},
            },
            "owner": [{"name": "bank", "records": records, "epsilon": 1.0, **owner}],
        }
    )


def table(n: int = N) -> pa.Table:
    rng = np.random.default_rng(0)
    rate = rng.uniform(-1, 1, n)
    return pa.table(
        {
            "name": pa.array([f"secret {k}" for k in range(n)]),
            # Whole numbers at first, so that a reader that looks at the first rows only is wrong about the rest.
            "income": pa.array([float(k % 100) if k < n - 9 else 0.25 for k in range(n)]),
            "rate": pa.array([None if k % 7 == 0 else float(rate[k]) for k in range(n)]),
            "grade": pa.array(rng.choice(["A", "B", "C"], n)),
            "repaid": pa.array(rng.choice(["no", "yes"], n)),
        }
    )


def written(folder: Path, kind: str, rows: pa.Table) -> tuple[str, str]:
    """What `--data` and `--query` would be."""
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(folder / "loans.duckdb")) as connection:
            connection.register("rows", rows)
            connection.execute("CREATE TABLE loans AS SELECT * FROM rows")
        return f"duckdb:{folder / 'loans.duckdb'}", "SELECT * FROM loans"
    path = folder / f"loans.{kind}"
    if kind == "csv":
        pa.csv.write_csv(rows, path)
    else:
        pa.parquet.write_table(rows, path, row_group_size=3000)
    return str(path), ""


KINDS = ["parquet", "csv", "duckdb"]
THETA = np.array([0.3, -1.0, 0.5, 0.1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_streamed_table_is_the_table_to_the_last_bit(tmp_path: Path, kind: str) -> None:
    agreed = agreement()
    source, query = written(tmp_path, kind, table())
    streamed, columns = streamed_records(agreed, "bank", source, query, None)
    from copriv.data.sql import is_sql, read_sql

    held, names = owner_records(agreed, "bank", read_sql(source, query, columns) if is_sql(source) else source, None)
    assert isinstance(streamed, InBlocks)
    assert (streamed.units, streamed.n_parameters, columns) == (held.units, held.n_parameters, names)
    blocks = list(streamed.blocks())
    assert [len(block) for block in blocks] == [BLOCK, BLOCK, 500]
    np.testing.assert_array_equal(np.concatenate([b.features for b in blocks]), held.features)
    np.testing.assert_array_equal(np.concatenate([b.target for b in blocks]), held.target)
    for loss in (Logistic(), Squared(), Hinge()):
        for order in (1, 2):
            mine, whole = (clipped_mean_gradient(loss, r, THETA, 0.3, order) for r in (streamed, held))
            assert mine.tobytes() == whole.tobytes()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_what_is_held_does_not_grow_with_the_table(tmp_path: Path, kind: str) -> None:
    def most_held(n: int) -> int:
        source, _ = written(tmp_path, kind, table(n))
        streamed, _ = streamed_records(agreement(n), "bank", source, "", None)
        gc.collect()  # the table that was written
        before, most = pa.total_allocated_bytes(), 0
        for _ in streamed.blocks():
            most = max(most, pa.total_allocated_bytes() - before)
        return most

    few = most_held(30 * BLOCK)
    assert few > 0
    assert most_held(120 * BLOCK) < 1.5 * few


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_an_owner_answers_from_a_stream_as_from_memory(
    tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dp_accounting")
    agreed = agreement(delta=1e-6 if mechanism == "gaussian" else 0.0).replace(agreement={"mechanism": mechanism})
    source, _ = written(tmp_path, "parquet", table())
    streamed, _ = streamed_records(agreed, "bank", source, "", None)
    from copriv.privacy.approximate import GaussianAnswer
    from copriv.privacy.laplace import LaplaceAnswer

    for kind in (LaplaceAnswer, GaussianAnswer):
        monkeypatch.setattr(kind, "release", lambda self, value: value)
    query = Query("q", agreed.fingerprint, "bank", THETA)
    mine, whole = (
        Owner(agreed, "bank", records, Logistic()).answer(query).gradient
        for records in (streamed, owner_records(agreed, "bank", source, None)[0])
    )
    assert mine.tobytes() == whole.tobytes()


def test_a_table_that_changed_gives_no_answer_and_no_reason_to_the_learner(tmp_path: Path) -> None:
    agreed, rows = agreement(), table()
    source, _ = written(tmp_path, "parquet", rows)
    streamed, _ = streamed_records(agreed, "bank", source, "", None)
    owner = Owner(agreed, "bank", streamed, Logistic())
    strange = rows.slice(1).set_column(3, "grade", pa.array(["a secret"] * (N - 1)))
    for number, (changed, said) in enumerate(((rows.slice(1), "holds 8691"), (strange, "a secret"))):
        written(tmp_path, "parquet", changed)
        reply, failure = respond(owner, Query(f"q{number}", agreed.fingerprint, "bank", THETA))
        assert isinstance(reply, Refusal)
        assert (reply.code, reply.reason) == ("lost", "its records cannot be read as they were agreed")
        assert isinstance(failure, DataError)
        assert said in str(failure)
        assert owner.ledger.answers == number + 1, "it was charged before a record was read"
    written(tmp_path, "parquet", rows)
    with pytest.raises(QueryRefused, match="never answered"):
        owner.answer(Query("q0", agreed.fingerprint, "bank", THETA))


def test_a_row_that_breaks_the_schema_is_named_before_anything_is_answered(tmp_path: Path) -> None:
    rows = table()
    wrong = rows.set_column(1, "income", pa.array([1.0] * (BLOCK + 10) + [200.0] + [1.0] * (N - BLOCK - 11)))
    for kind in ("parquet", "csv"):
        source, _ = written(tmp_path, kind, wrong)
        streamed, _ = streamed_records(agreement(), "bank", source, "", None)
        with pytest.raises(DataError, match=f"rows {BLOCK + 1} to {2 * BLOCK}, .*income, row 11: is 200, above"):
            Owner(agreement(), "bank", streamed, Logistic())


def test_a_csv_column_that_turns_to_text_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "loans.csv"
    lines = ["income,rate,grade,repaid", *["1,0.5,A,no"] * 200_000, "many,0.5,A,no"]
    path.write_text("\n".join(lines))
    schema = schema_of(agreement(), None)
    assert schema is not None
    chunks = list(table_chunks(path, schema)())
    assert {chunk.schema.field("income").type for chunk in chunks} == {pa.string()}
    streamed, _ = streamed_records(agreement(200_001), "bank", str(path), "", None)
    with pytest.raises(DataError, match="is 'many', not a number"):
        list(streamed.blocks())


def test_what_needs_its_records_in_memory_says_so(tmp_path: Path) -> None:
    source, _ = written(tmp_path, "parquet", table())
    persons = agreement(unit="name", unit_records=2)
    with pytest.raises(AgreementError, match=r"each record is a unit.*--memory"):
        streamed_records(persons, "bank", source, "", None)
    lending = Agreement.of(
        agreement().to_dict() | {"data": {"dataset": "lending", "components": 0, "feature_bound": 1.0}}
    )
    with pytest.raises(AgreementError, match="declared columns"):
        streamed_records(lending, "bank", source, "", None)
    once = agreement().replace(agreement={"mechanism": "objective", "answers": 1})
    streamed, _ = streamed_records(agreement(), "bank", source, "", None)
    with pytest.raises(AgreementError, match='mechanism "objective" needs bank\'s records in memory'):
        Owner(once, "bank", streamed, Logistic())


def test_weights_that_are_not_one_are_not_taken_from_a_stream(tmp_path: Path) -> None:
    class Heavy(StreamedRecords):
        def blocks(self) -> Iterator[Records]:
            for block in super().blocks():
                yield Records(block.features, block.target, 2.0 * block.weight)

    source, _ = written(tmp_path, "parquet", table())
    streamed, _ = streamed_records(agreement(), "bank", source, "", None)
    heavy = Heavy(streamed.read, streamed.prepare, streamed.units, streamed.n_parameters)
    with pytest.raises(AgreementError, match="weigh 1 each"):
        Owner(agreement(), "bank", heavy, Logistic())


def test_a_loss_of_ones_own_streams_too(tmp_path: Path) -> None:
    def gradients(theta: Array, x: Array, y: Array) -> Array:
        return x * (x @ theta - y)[:, None]

    def values(theta: Array, x: Array, y: Array) -> Array:
        return 0.5 * (x @ theta - y) ** 2

    source, _ = written(tmp_path, "parquet", table())
    streamed, _ = streamed_records(agreement(), "bank", source, "", None)
    held, _ = owner_records(agreement(), "bank", source, None)
    loss = Custom("own", values, gradients)
    mine, whole = (clipped_mean_gradient(loss, r, THETA, 0.3) for r in (streamed, held))
    assert mine.tobytes() == whole.tobytes()


def test_a_filter_between_table_and_records_is_refused() -> None:
    """The noise is made for n records: fewer of them would move the mean further than it covers."""
    rows = pa.table({"x": np.arange(200)})

    def prepare(piece: pa.Table) -> Records:
        kept = piece.num_rows // 2
        return Records.of(np.ones((kept, 3)), np.ones(kept))

    with pytest.raises(DataError, match="keep all"):
        list(StreamedRecords(lambda: [rows], prepare, 200, 3).blocks())


class Lying:
    """Records that say one thing and are another."""

    n_parameters = 3

    def __init__(self, units: int, rows: int, times: int) -> None:
        self.units, self._block, self._times = units, Records.of(np.ones((rows, 3)), np.ones(rows)), times

    def blocks(self) -> Iterator[Records]:
        yield from [self._block] * self._times


@pytest.mark.parametrize("records", [Lying(200, 10, 10), Lying(BLOCK + 1, BLOCK + 1, 1)], ids=["fewer", "long block"])
def test_records_that_are_not_as_many_as_they_say_give_no_mean(records: Lying) -> None:
    assert isinstance(records, InBlocks)
    with pytest.raises(DataError, match="records"):
        clipped_mean_gradient(Squared(), records, np.zeros(3), 1.0)


def test_the_learner_is_not_told_what_a_table_holds_when_a_session_begins(tmp_path: Path) -> None:
    """A learner may name a new run at any time, and a streamed table is read anew for it."""
    source, _ = written(tmp_path, "parquet", table())
    streamed, _ = streamed_records(agreement(), "bank", source, "", None)
    told: list[object] = []

    async def learner(link: Link) -> None:
        await link.receive()
        changed = table()
        income = changed["income"].to_pylist()
        income[5000] = 87654.321
        column = changed.column_names.index("income")
        pa.parquet.write_table(changed.set_column(column, "income", pa.array(income)), source)
        await link.send(encode(Welcome("run-2", "choose", 0.0, 0, "", "learner", "")))
        told.append(decode(await link.receive()))

    async def session() -> None:
        network = MemoryNetwork()
        async with network.listening(learner):
            with opened(tmp_path / "ledger", "bank", Fraction(1)) as file:
                agent = OwnerAgent(
                    agreement(), "bank", streamed, Logistic(), file, network.dialer("bank"), keys=unsigned("bank")
                )
                with pytest.raises(DataError, match="87654"):
                    await agent.serve()
            await asyncio.sleep(0.1)

    asyncio.run(session())
    (refusal,) = told
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "its records do not keep to the agreement"
