"""What load_consortium deals out: sizes, disjointness, and that nothing about a private row reaches anything public."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from copriv.agreement import Agreement
from copriv.data import (
    Category,
    DataSpecification,
    Number,
    PublicDictionary,
    Schema,
    dealing,
    load_consortium,
    open_dataset,
    prepare_owner,
)
from copriv.errors import DataError, InvalidInput
from copriv.problem import Problem

SCHEMA = Schema(
    (Number("a", -10, 10), Number("b", 0, 100), Category("c", ("x", "y", "z"), ordered=True), Number("id", 0, 1000)),
    Number("y", -50, 50),
)
PUBLIC = 40


def cells(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(0, 2, rows).clip(-10, 10),
        "b": rng.uniform(0, 100, rows),
        "c": rng.choice(["x", "y", "z"], rows),
        "id": np.arange(rows, dtype=float),  # tells the rows apart
        "y": rng.normal(0, 10, rows).clip(-50, 50),
        "person": np.repeat(np.arange(rows // 4), 4),
    }


@pytest.fixture
def load(tmp_path):
    def load(records, table=None, **options):
        path = tmp_path / "table.parquet"
        pa.parquet.write_table(pa.table(table or cells()), path)
        options = {"components": 3, "public_rows": PUBLIC, "schema": SCHEMA, **options}
        return load_consortium("table", records, path=path, **options)

    return load


def ids(records):
    return np.rint(records.features[:, 3] * 1000).astype(int)


def plain(load, records, **options):
    return load(records, components=0, feature_bound=0, **options)


def test_owners_are_consecutive_disjoint_slices_and_the_last_rows_are_public(load):
    c = plain(load, [50, 30, 20], held_out=10)
    for owner, expected in zip(c.owners, (range(50), range(50, 80), range(80, 100)), strict=True):
        np.testing.assert_array_equal(ids(owner), list(expected))
    np.testing.assert_array_equal(ids(c.public), range(160, 200))
    np.testing.assert_array_equal(ids(c.held_out), range(150, 160))
    assert (c.source, c.feature_bound, c.target_bound) == ("real", None, 50)
    assert c.feature_names == ("a", "b", "c", "id")
    assert c.dictionary is None
    assert "200 real rows, the last 40 public" in c.description
    assert "not resampled" in c.description
    assert plain(load, [160]).held_out is None


def test_without_a_dictionary_features_are_at_most_one_in_size(load):
    assert np.abs(plain(load, [160]).owners[0].features).max() <= 1


def test_more_records_than_rows_are_resampled_at_a_cost_that_does_not_grow(load):
    c = plain(load, [1_000_000, 100], seed=3)
    assert [o.units for o in c.owners] == [1_000_000, 100]
    assert len(c.owners[0]) == 160
    assert c.source == "resampled"
    assert "resampled: drawn with replacement from 160 real ones, seed 3" in c.description
    assert set(ids(c.owners[0])) == set(range(160))
    assert c.owners[0].weight.std() == pytest.approx(np.sqrt(1_000_000 / 160), rel=0.3)
    again = plain(load, [1_000_000, 100], seed=3)
    np.testing.assert_array_equal(again.owners[1].features, c.owners[1].features)
    other = plain(load, [1_000_000, 100], seed=4)
    assert other.owners[1].weight.tolist() != c.owners[1].weight.tolist() or len(other.owners[1]) != len(c.owners[1])
    # An owner that joins changes nobody else's draw.
    joined = plain(load, [1_000_000, 100, 7], seed=3)
    np.testing.assert_array_equal(joined.owners[1].weight, c.owners[1].weight)


def test_the_bound_is_beyond_the_public_rows_and_changes_no_record(load):
    free, bounded, tight = load([160], feature_bound=0), load([160]), load([160], feature_bound=0.01)
    longest = np.abs(free.public.features).sum(axis=1).max()
    assert longest <= bounded.feature_bound < 10 * longest
    assert tight.feature_bound == 0.01
    for made in (bounded, tight):
        for records, untouched in zip((*made.owners, made.public), (*free.owners, free.public), strict=True):
            np.testing.assert_array_equal(records.features, untouched.features)


def test_intercept_comes_after_bounding(load):
    c = load([160], intercept=True)
    np.testing.assert_array_equal(c.owners[0].features[:, -1], 1.0)
    np.testing.assert_array_equal(c.public.features[:, -1], 1.0)
    assert c.feature_names == ("pc1", "pc2", "pc3", "intercept")
    np.testing.assert_array_equal(c.owners[0].features[:, :-1], load([160]).owners[0].features)


def leaks(load, row, **options):
    """Whether changing one private row changes anything but that row's own record."""
    before = load([100, 60], **options)
    table = cells()
    for name, value in (("a", 10.0), ("b", 100.0), ("c", "z"), ("y", 50.0)):
        table[name][row] = value
    after = load([100, 60], table, **options)
    other = np.arange(160) != row

    def rows(c):
        return np.concatenate([np.column_stack([o.features, o.target]) for o in c.owners])

    return (
        before.dictionary.fingerprint != after.dictionary.fingerprint
        or before.feature_bound != after.feature_bound
        or before.target_bound != after.target_bound
        or not np.array_equal(before.public.features, after.public.features)
        or not np.array_equal(rows(before)[other], rows(after)[other])
        or np.array_equal(rows(before)[row], rows(after)[row])
    )


@pytest.mark.parametrize("row", [0, 57, 99, 100, 159])
def test_a_private_row_reaches_nothing_but_itself(load, row):
    assert not leaks(load, row)


@pytest.mark.parametrize("row", [0, 159])
def test_a_dictionary_fitted_on_all_rows_would_be_caught(load, row, monkeypatch):
    monkeypatch.setattr(
        dealing, "_cut", lambda source, *_: (np.arange(200), np.arange(160), np.arange(0))
    )  # everything is "public"
    assert leaks(load, row)


def test_public_rows_do_matter(load):
    table = cells()
    table["a"][199] = 10.0
    assert load([160], table).dictionary.fingerprint != load([160]).dictionary.fingerprint


def test_private_rows_survive_resampling_untouched(load):
    c = load([500])
    free = load([160])
    known = {tuple(row) for row in free.owners[0].features.round(14)}
    assert all(tuple(row) in known for row in c.owners[0].features.round(14))


def test_persons_are_dealt_whole_and_counted_once(load):
    c = plain(load, [10, 20], unit="person")
    assert [o.units for o in c.owners] == [10, 20]
    np.testing.assert_array_equal(ids(c.owners[0]), range(40))
    np.testing.assert_allclose(c.owners[0].weight, 0.25)
    capped = plain(load, [10], unit="person", unit_records=3)
    assert (capped.owners[0].units, len(capped.owners[0])) == (10, 30)
    np.testing.assert_allclose(capped.owners[0].weight, 1 / 3)


@pytest.mark.parametrize("most", [(1, 3), (3, 1), (None, 2), (2, None)])
@pytest.mark.parametrize("persons", [10, 1000])  # dealt, and drawn with replacement
def test_each_owner_keeps_as_many_rows_of_a_person_as_its_own_terms_say(load, tmp_path, most, persons):
    load([10])  # writes the table
    owners = [{"name": name, "records": persons, "epsilon": 1.0, "unit": "person"} for name in "ab"]
    terms = {
        "agreement": {"rule": "A2", "horizon": 2, "answers": 1, "step": 1.0},
        "model": {"loss": "squared", "gradient_bound": 2.0},
        "data": {
            "dataset": "table", "path": str(tmp_path / "table.parquet"), "components": 0, "public_rows": 42,
            "features": ["a"], "target": "y", "bounds": {"a": [-10, 10], "y": [-50, 50]},
        },
        "owner": [owner if k is None else {**owner, "unit_records": k} for owner, k in zip(owners, most, strict=True)],
    }  # fmt: skip
    for records, k in zip(Problem.load(Agreement.of(terms)).owners, most, strict=True):
        # Each person has four rows. Of a thousand draws all 39 persons that have no public row are among them.
        assert len(records) == min(persons, 39) * (k or 4)


def test_a_person_with_public_rows_is_nobodys_private_record(load):
    c = plain(load, [37], unit="person", public_rows=42, held_out=6)
    # Rows 158 to 199 are public, and with them all of person 39; the next six are held out, of persons 37 and 38.
    assert min(ids(c.public)) == 158
    np.testing.assert_array_equal(ids(c.held_out), range(150, 156))
    np.testing.assert_array_equal(ids(c.owners[0]), range(148))


def test_resampled_persons_weigh_as_often_as_they_were_drawn(load):
    c = plain(load, [100_000], unit="person", unit_records=2)
    owner = c.owners[0]
    assert owner.units == 100_000
    assert len(owner) == 80
    weight = owner.weight[np.argsort(ids(owner))]  # a person's two rows are neighbours
    np.testing.assert_array_equal(weight[0::2], weight[1::2])
    assert len(set(weight)) > 5
    assert "100,000 persons" in c.description


def test_a_given_dictionary_is_used(load):
    given = load([160], seed=1, public_rows=60).dictionary
    assert load([100], dictionary=given, components=9).dictionary is given


def test_an_owner_prepares_its_own_table_as_the_simulation_does(load):
    c = load([50, 30])
    mine = {name: values[50:80] for name, values in cells().items()}
    records = prepare_owner(pa.table(mine), SCHEMA, c.dictionary, c.feature_bound, records=30)
    np.testing.assert_array_equal(records.features, c.owners[1].features)
    np.testing.assert_array_equal(records.target, c.owners[1].target)
    again = PublicDictionary.from_json(c.dictionary.to_json())
    by_row = [
        prepare_owner(pa.table({k: v[r : r + 1] for k, v in mine.items()}), SCHEMA, again, c.feature_bound)
        for r in range(30)
    ]
    np.testing.assert_array_equal(np.concatenate([r.features for r in by_row]), records.features)


def test_an_owner_with_another_number_of_records_is_refused(load):
    with pytest.raises(DataError, match="records: 201 were agreed, the table holds 200 records; the noise depends on"):
        prepare_owner(pa.table(cells()), SCHEMA, None, None, records=201)
    persons = Schema(SCHEMA.columns, SCHEMA.target, unit="person")
    assert prepare_owner(pa.table(cells()), persons, None, 0, records=50, unit_records=2).units == 50
    with pytest.raises(DataError, match="200 were agreed, the table holds 50 different person"):
        prepare_owner(pa.table(cells()), persons, None, None, records=200)


def test_an_owner_may_clamp(load):
    table = cells()
    table["b"][7] = 1e9
    with pytest.raises(DataError, match="b, row 8: is 1000000000, above its declared bound 100"):
        prepare_owner(pa.table(table), SCHEMA, None, None)
    assert prepare_owner(pa.table(table), SCHEMA, None, None, on_violation="clamp").features[7, 1] == 1


@pytest.mark.parametrize(
    ("records", "options", "says"),
    [
        ([], {}, "records: a consortium needs at least one owner"),
        ([0], {}, r"records\[0\]: must be a whole number"),
        ([10, True], {}, r"records\[1\]: must be a whole number"),
        ([10], {"public_rows": 200}, "data.public_rows: 200 public rows .* table of 200 rows; lower"),
        ([10], {"public_rows": 300}, "data.public_rows: 300 public rows"),
        ([10], {"held_out": 160}, "160 held out leave no records"),
        ([10], {"components": 5}, "data.components: 5 asked for"),
        ([10], {"components": -1}, "data.components: must be a whole number"),
        ([10], {"feature_bound": -1.0}, "data.feature_bound: must be a finite number, 0 or more"),
        ([10], {"feature_bound": float("nan")}, "data.feature_bound"),
        ([10], {"unit": "patient"}, "patient: the table has no such column"),
        ([10], {"unit": "person", "unit_records": 0}, "unit_records: must be a whole number"),
    ],
)
def test_what_does_not_fit_is_one_line(load, records, options, says):
    with pytest.raises(InvalidInput, match=says) as refused:
        load(records, **options)
    assert "\n" not in str(refused.value)


def test_a_bad_row_is_named_by_column_and_row(load):
    table = cells()
    table["b"][123] = np.nan
    with pytest.raises(DataError, match="b, row 124: is missing; fill it in"):
        load([10], table)


@pytest.mark.parametrize(
    ("dataset", "options", "says"),
    [
        ("lendin", {}, "data.dataset: 'lendin' is not known; use one of lending,"),
        ("table", {}, 'data.path: dataset = "table" needs a path'),
        ("table", {"path": "x.csv"}, 'data.path: dataset = "table" needs a path and declared columns'),
        ("table", {"path": "nowhere.csv", "schema": SCHEMA}, "nowhere.csv: there is no such file"),
        ("lending", {"schema": SCHEMA}, "brings its own schema"),
        ("lending-embedded", {"path": "x.csv"}, "reads no file; drop the path"),
        ("hospital-simulated", {"path": "x.csv"}, "reads no file; drop the path"),
    ],
)
def test_a_data_set_that_cannot_be(dataset, options, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=says):
        load_consortium(dataset, [10], **options)


def test_paths_may_be_text_or_path(load, tmp_path):
    load([10])
    for path in (str(tmp_path / "table.parquet"), Path(tmp_path / "table.parquet")):
        assert (
            load_consortium("table", [10], path=path, schema=SCHEMA, components=2, public_rows=40).owners[0].units == 10
        )


def test_a_table_at_hand_is_dealt_as_if_it_were_read(load, tmp_path, monkeypatch):
    read = load([50, 30], held_out=20)
    at_hand = open_dataset("table", path=tmp_path / "table.parquet", schema=SCHEMA)
    monkeypatch.setattr(DataSpecification, "open", lambda *_, **__: pytest.fail("read again"))
    dealt = load([50, 30], held_out=20, opened=at_hand)
    for one, other in zip(
        (*read.owners, read.public, read.held_out), (*dealt.owners, dealt.public, dealt.held_out), strict=True
    ):
        np.testing.assert_array_equal(one.features, other.features)
        np.testing.assert_array_equal(one.target, other.target)
    assert dealt.description == read.description


def test_a_specification_is_its_keywords_and_options_change_it(load, tmp_path):
    agreed = DataSpecification(
        "table", path=tmp_path / "table.parquet", schema=SCHEMA, components=2, public_rows=PUBLIC, fourier_features=5
    )
    by_keywords = load([50, 30], components=3, fourier_features=5)
    given = load_consortium(agreed, [50, 30], components=3)
    np.testing.assert_array_equal(given.public.features, by_keywords.public.features)
    np.testing.assert_array_equal(given.owners[1].features, by_keywords.owners[1].features)
    with pytest.raises(InvalidInput, match=r"data\.public_rows: must be a whole number"):
        load_consortium(agreed, [50], public_rows=-1)
    with pytest.raises(DataError, match=r"data\.public_rows: 0 leaves no rows of which components"):
        load_consortium(agreed, [50], public_rows=0)
    with pytest.raises(TypeError, match="compnents"):
        load_consortium(agreed, [50], compnents=3)


def test_public_rows_stand_in_for_tables_that_are_not_here(tmp_path):
    pa.parquet.write_table(pa.table(cells(60)), tmp_path / "public.parquet")
    given = {"schema": SCHEMA, "public": tmp_path / "public.parquet", "components": 0, "feature_bound": 0}
    found = load_consortium("table", [500, 70], **given)
    assert [owner.units for owner in found.owners] == [500, 70]
    assert found.source == "public"
    for owner in found.owners:
        rows = ids(owner)
        assert set(rows) <= set(range(60))
        np.testing.assert_array_equal(owner.target, np.array(cells(60)["y"])[rows])
    assert found.public.units == 60
    assert "stand in for them, as if all owners were alike" in found.description
    strata = ["north" if i < 20 else "south" for i in range(60)]
    pa.parquet.write_table(pa.table({**cells(60), "region": strata}), tmp_path / "strata.parquet")
    of_strata = {**given, "public": tmp_path / "strata.parquet"}
    by_stratum = load_consortium("table", [500, 70, 30], strata=("region", ["south", "north", "west"]), **of_strata)
    assert [owner.units for owner in by_stratum.owners] == [500, 70, 30]
    south, north, west = (set(ids(owner)) for owner in by_stratum.owners)
    assert south <= set(range(20, 60))
    assert north <= set(range(20))
    assert west & north, "an owner without a stratum has rows of all"
    assert west & south
    assert "each owner's from its stratum where it has one" in by_stratum.description
    tested = load_consortium("table", [5, 5], held_out=40, strata=("region", ["south", "north"]), **of_strata)
    assert not set(ids(tested.held_out)) & {*ids(tested.owners[0]), *ids(tested.owners[1])}
    few = load_consortium("table", [20, 30], held_out=10, **given)
    whole = np.concatenate([ids(records) for records in (*few.owners, few.held_out)])
    assert sorted(whole) == list(range(60)), "where they are enough, each row is one owner's"
    by_person = load_consortium("table", [40], unit="person", **given)
    assert by_person.owners[0].units == 40
