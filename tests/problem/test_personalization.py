"""An owner's own model, made at home with the common one as a prior."""

import numpy as np
import pytest

import copriv
from copriv.errors import CoprivError, DataError, InvalidInput
from copriv.losses import by_name
from copriv.model.fitness import FeasibleSet, Fitness, Regularizer
from copriv.model.records import Records
from copriv.problem.personalization import COUNTS, Home, personalized

P = 4


def _agreement(loss: str = "squared", intercept: bool = False) -> copriv.Agreement:
    return copriv.Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 3, "step": 1.0},
            "model": {"loss": loss, "regularization": 1e-3, "gradient_bound": 5.0, "intercept": intercept},
            "data": {"feature_bound": 0},
            "owner": [{"name": "a", "records": 50, "epsilon": 1.0}, {"name": "b", "records": 70, "epsilon": 1.0}],
        }
    )


def _rows(n: int, theta: object, seed: int, loss: str = "squared") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P))
    y = X @ np.asarray(theta) + 0.5 * rng.normal(size=n)
    return X, np.where(y > 0, 1.0, -1.0) if loss in ("logistic", "hinge") else y


def _home(loss: str, centre: np.ndarray) -> Home:
    return Home(by_name(loss, 0.5), 1e-3, centre, np.eye(P))


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_alone_is_the_owners_certified_optimum(loss: str) -> None:
    own = Records.of(*_rows(300, [1.0, -1.0, 0.5, 0.0], 0, loss))
    f = Fitness(by_name(loss, 0.5), Regularizer(1e-3), FeasibleSet(), own)
    fitted = _home(loss, np.zeros(P)).fitted(own, 0.0, np.zeros(P))
    assert float(f.value(fitted)) == pytest.approx(f.minimum().value, rel=1e-7)


def test_a_kink_is_rounded_and_costs_little() -> None:
    own = Records.of(*_rows(300, [1.0, -1.0, 0.5, 0.0], 0, "hinge"))
    f = Fitness(by_name("hinge"), Regularizer(1e-3), FeasibleSet(), own)
    fitted = _home("hinge", np.zeros(P)).fitted(own, 0.0, np.zeros(P))
    assert float(f.value(fitted)) < 1.02 * f.minimum().value


def test_the_squared_loss_has_a_closed_form() -> None:
    X, y = _rows(40, [1.0, 2.0, 3.0, 4.0], 1)
    centre, k = np.array([0.5, 0.5, 0.5, 0.5]), 10.0
    pull = 2.0 * k / 40 * np.eye(P)  # one record's curvature is 2xxᵀ
    by_hand = np.linalg.solve(2.0 * X.T @ X / 40 + 1e-3 * np.eye(P) + pull, 2.0 * X.T @ y / 40 + pull @ centre)
    assert np.allclose(_home("squared", centre).fitted(Records.of(X, y), k, centre), by_hand, rtol=1e-8)


@pytest.mark.parametrize("public", [True, False])
def test_what_is_made_at_home_is_the_same_in_any_unit(public: bool) -> None:
    """A column in thousandths was held to the common model where all that is known of it is its unit."""
    (X, y), agreement = _rows(50, [1.0, 2.0, 3.0, 4.0], 1), _agreement().replace(model={"regularization": 0.0})
    seen, centre, unit = (
        _rows(200, [1.0, 2.0, 3.0, 3.0], 2),
        np.array([1.5, 1.5, 2.5, 3.0]),
        np.array([1.0, 1e-3, 30.0, 1.0]),
    )
    plain = personalized(agreement, centre, (X, y), public=seen if public else None).theta
    scaled = (seen[0] * unit, seen[1]) if public else None
    found = personalized(agreement, centre / unit, (X * unit, y), public=scaled).theta
    np.testing.assert_allclose(found * unit, plain, rtol=1e-5)


def test_a_loss_known_by_gradients_only_gives_the_same() -> None:
    from copriv.losses import Custom

    custom = Custom(
        "own",
        lambda t, X, y: np.square(X @ t - y),
        lambda t, X, y: 2.0 * (X @ t - y)[:, None] * X,
    )
    own, centre = Records.of(*_rows(60, [1.0, 2.0, 3.0, 4.0], 1)), np.ones(P)
    by_gradients = Home(custom, 1e-3, centre, np.eye(P))
    assert by_gradients._by_gradients(own, 0.3 * np.eye(P), centre) == pytest.approx(
        np.linalg.solve(
            2.0 * own.features.T @ own.features / 60 + 1e-3 * np.eye(P) + 0.3 * np.eye(P),
            2.0 * own.features.T @ own.target / 60 + 0.3 * centre,
        ),
        rel=1e-4,
    )


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "hinge"])
def test_it_is_nearly_the_better_of_alone_and_together(loss: str) -> None:
    """Owners like the others, and owners unlike them: at home nobody should need to know which it is."""
    common = np.array([1.0, -1.0, 0.5, 0.0])
    ratios = []
    for seed, away in enumerate([0.0, 0.1, 0.5, 2.0] * 3):
        truth = common + away * np.random.default_rng(seed).normal(size=P)
        own, test = _rows(200, truth, seed, loss), _rows(20_000, truth, 1000 + seed, loss)
        lost = by_name(loss, 0.5)
        mine = copriv.personalize(_agreement(loss), common, own)
        alone = _home(loss, common).fitted(Records.of(*own), 0.0, common)
        best = min(float(lost.values(t, *test).mean()) for t in (alone, common))
        ratios.append(float(lost.values(mine, *test).mean()) / best)
    assert np.mean(ratios) < 1.02
    assert max(ratios) < 1.1


def test_an_owner_like_the_others_keeps_the_common_model_and_one_unlike_them_does_not() -> None:
    common = np.array([1.0, -1.0, 0.5, 0.0])
    like = personalized(_agreement(), common, _rows(60, common, 3))
    unlike = personalized(_agreement(), common, _rows(60, -common, 3))
    assert like.weights.sum() == pytest.approx(1.0)
    assert like.common_share > 0.6
    assert unlike.common_share < 0.1


def test_owners_that_hold_next_to_nothing_get_an_answer() -> None:
    common = np.array([1.0, -1.0, 0.5, 0.0])
    X, y = _rows(50, common, 4, "logistic")
    one_class = copriv.personalize(_agreement("logistic"), common, (X, np.ones(50)))
    constant = copriv.personalize(_agreement(), common, (np.hstack([X[:, :3], np.ones((50, 1))]), y))
    few = copriv.personalize(_agreement(), common, (X[:2], y[:2]))
    single = copriv.personalize(_agreement(), common, (X[:1], y[:1]))
    for theta in (one_class, constant, few, single):
        assert np.isfinite(theta).all()
    assert np.array_equal(single, common)


def test_what_rows_do_not_determine_stays_as_it_came() -> None:
    common = np.array([1.0, -1.0, 0.5, 7.0])
    X, y = _rows(200, [0.0, 1.0, 0.5, 0.0], 5)
    X[:, 3] = 0.0
    free = _agreement().replace(model={"regularization": 0.0})
    assert copriv.personalize(free, common, (X, y))[3] == pytest.approx(7.0, rel=1e-3)


def test_the_intercept_is_added_and_the_shape_checked() -> None:
    X, y = _rows(80, [1.0, 2.0, 3.0, 4.0], 6)
    theta = copriv.personalize(_agreement(intercept=True), np.zeros(P + 1), (X, y + 10.0))
    assert theta.shape == (P + 1,)
    assert theta[-1] == pytest.approx(10.0, abs=0.5)
    with pytest.raises(DataError, match="5 parameters"):
        copriv.personalize(_agreement(intercept=True), np.zeros(P), (X, y))


@pytest.mark.parametrize(
    ("data", "more", "said"),
    [
        (np.ones((5, P)), {}, "data: must be the owner's rows"),
        (None, {}, "data: must be the owner's rows"),
        ((np.eye(P), np.ones(P)), {"public": (np.ones((5, 2)), np.ones(5))}, "public: 2 features"),
        ((np.eye(P), np.ones(P)), {"seed": -1}, "seed"),
    ],
)
def test_what_does_not_fit_is_said(data: object, more: dict[str, object], said: str) -> None:
    with pytest.raises(CoprivError, match=said):
        copriv.personalize(_agreement(), np.ones(P), data, **more)


def test_the_same_seed_gives_the_same_model() -> None:
    own = _rows(80, [1.0, 2.0, 3.0, 4.0], 6)
    once, again = (copriv.personalize(_agreement(), np.ones(P), own, seed=3) for _ in range(2))
    assert np.array_equal(once, again)
    assert COUNTS[0] == 0.0
    assert np.isinf(COUNTS[-1])


def test_an_owner_whose_level_alone_differs_keeps_the_slopes_of_the_common_model() -> None:
    """One number is learned from 60 rows, and not thirteen: 60 rows say a level to 1/60 of the noise's variance."""
    truth, above = np.linspace(-1.0, 1.0, 12), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 12))
        y = X @ truth + 2.0 + rng.normal(size=60)
        theta = copriv.personalize(_agreement(intercept=True), np.append(truth, 0.0), (X, y))
        above.append(float(np.square(theta - np.append(truth, 2.0)).sum()))  # E (xᵀθ − E y)² for such x
    assert np.mean(above) < 0.06


def test_every_fold_has_its_part_of_a_rare_class() -> None:
    """Ten of a hundred: a fold that held out none of them would say nothing of how they are served."""
    own = Records.of(
        np.hstack([_rows(100, [1.0, 0.0, 0.0, 0.0], 0)[0], np.ones((100, 1))]), np.repeat([1.0, -1.0], [10, 90])
    )
    seen: list[int] = []

    class Counting(Home):
        def fitted(self, own, count, near, own_level=False):  # type: ignore[no-untyped-def]
            seen.append(int((own.target > 0).sum()))
            return self.centre

    home = Counting(by_name("logistic", 0.5), 1e-3, np.zeros(P + 1), np.eye(P + 1), True)
    home.cross_validated(own, home.candidates, np.random.default_rng(0))
    assert set(seen) == {8}


def test_a_person_is_held_out_with_all_its_rows() -> None:
    """Six rows of a person that say the same would say of one another how well each is served."""
    rng = np.random.default_rng(0)
    person = rng.permutation(np.repeat(np.arange(20), 6))
    X, y = rng.normal(size=(20, P))[person], rng.normal(size=20)[person]
    own, seen = Records.of_persons(np.column_stack([X[:, :3], person]), y, person), []

    class Counting(Home):
        def fitted(self, own, count, near, own_level=False):  # type: ignore[no-untyped-def]
            seen.append(set(own.features[:, 3].astype(int).tolist()))
            return self.centre

    home = Counting(by_name("squared"), 1e-3, np.zeros(P), np.eye(P))
    found = home.cross_validated(own, home.candidates, np.random.default_rng(0)).out
    assert {len(one) for one in seen} == {16}
    np.testing.assert_allclose(found[:, 0], np.square(y[[int(np.argmax(person == i)) for i in range(20)]]))


def test_rows_of_persons_that_repeat_themselves_are_not_taken_for_more_persons() -> None:
    """Noise of 8 persons with 25 equal rows each was fitted as 200 rows would allow."""
    truth, away = np.linspace(-1.0, 1.0, P), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        person = rng.permutation(np.repeat(np.arange(8), 25))
        X = rng.normal(size=(8, P))
        y = X @ truth + 3.0 * rng.normal(size=8)
        theta = copriv.personalize(_agreement(), truth, Records.of_persons(X[person], y[person], person))
        away.append(float(np.square(theta - truth).sum()))
    assert np.mean(away) < 3.0


@pytest.mark.parametrize(
    ("theta", "rows", "public", "said"),
    [
        (1e300, 1.0, None, "theta: a number is 1e\\+300 in size"),
        (1.0, 1e200, None, "features: a number is 1e\\+200"),
        (1.0, 1.0, 1e200, "public: features: a number is 1e\\+200"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_would_overflow_is_refused_in_words(theta: float, rows: float, public: float | None, said: str) -> None:
    shown = None if public is None else (public * np.eye(P), np.ones(P))
    with pytest.raises(InvalidInput, match=said):
        copriv.personalize(_agreement(), np.full(P, theta), (rows * np.eye(P), np.arange(P)), public=shown)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "hinge"])
def test_nothing_overflows_below_what_is_refused(loss: str) -> None:
    X, y = _rows(20, [1.0, 2.0, 3.0, 4.0], 1, loss)
    assert np.isfinite(copriv.personalize(_agreement(loss, True), np.full(P + 1, 1e49), (1e49 * X / 4.0, y))).all()


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "hinge"])
def test_features_that_are_all_0_leave_the_common_model(loss: str) -> None:
    X, y = _rows(20, [1.0, 2.0, 3.0, 4.0], 1, loss)
    free, common = _agreement(loss).replace(model={"regularization": 0.0}), np.array([1.0, -1.0, 0.5, 7.0])
    np.testing.assert_allclose(copriv.personalize(free, common, (0.0 * X, y)), common, rtol=1e-6)


def test_weights_that_are_less_than_one_record_are_said_to_be() -> None:
    with pytest.raises(DataError, match="weigh 0\\.3 together"):
        copriv.personalize(_agreement(), np.ones(P), (np.eye(P)[:3], np.ones(3), np.full(3, 0.1)))


def test_records_that_several_owners_hold_can_be_personalized_at_home() -> None:
    own = _rows(50, [1.0, -1.0, 0.5, 0.0], 4)
    shared = _agreement().replace(owner={"overlap": 2})
    assert np.array_equal(
        copriv.personalize(shared, np.ones(P), own), copriv.personalize(_agreement(), np.ones(P), own)
    )


def test_owners_whose_sum_alone_was_seen_finish_at_home_as_others_do() -> None:
    """The finding: no model of a run in sums could be finished at home, nor a plan of one be simulated on own records."""
    owners = [{"name": name, "records": 50, "epsilon": 1.0, "floor": 4.0} for name in "abcd"]
    plain = copriv.Agreement.of({**_agreement().to_dict(), "owner": [{**one, "floor": None} for one in owners]})
    summed = plain.replace(agreement={"aggregation": "sum", "dropouts": 1}).to_dict()
    data, θ = _rows(50, [1.0, -1.0, 0.5, 0.0], 0), np.ones(P)
    in_sums = copriv.Agreement.of({**summed, "owner": owners})
    assert in_sums.owner[0].floor == 4
    np.testing.assert_array_equal(copriv.personalize(in_sums, θ, data), copriv.personalize(plain, θ, data))
    rows = [_rows(50, [1.0, -1.0, 0.5, 0.0], k) for k in range(4)]
    assert copriv.simulate(in_sums, rows, runs=2, own_records=True).owners[0].own


def test_a_level_is_found_though_no_row_is_near_a_kink() -> None:
    """Curvature is 0 there: the step was as good as endless, and halved too seldom ended at a level of −45 million."""
    rng = np.random.default_rng(18)
    own = Records.of(np.hstack([0.01 * rng.normal(size=(40, P)), np.ones((40, 1))]), np.repeat([1.0, -1.0], [15, 25]))
    home = Home(by_name("hinge"), 0.0, np.append(np.ones(P), 0.0), np.eye(P + 1), True)
    theta = home.fitted(own, 0.3, home.centre, True)
    lost = by_name("hinge").values(theta, own.features, own.target).mean()
    assert lost < 1.02 * 2.0 * 15 / 40
