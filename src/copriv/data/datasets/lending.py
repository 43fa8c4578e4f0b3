"""Lending Club loans: the interest rate, in percent, from what was known when the loan was made.

Without a path, the table inside the package: 9,857 real loans of 2016 (R package modeldata, MIT licence). With one, a file
of one of three kinds, told by its columns:

- the papers' file (`loan.csv`, loans of 2007 to 2015, about 890,000 rows and 74 columns), or as
  `copriv data fetch lending --from loan.csv` keeps it, which takes texts with line breaks;
- `lending_10k.parquet`: 10,000 real loans of early 2018 (OpenIntro, CC BY-SA 3.0);
- a table with the columns of the one inside the package.

Grade and sub-grade stay in, as in the papers; what follows from the interest rate (instalment, payments, balance, loan
status) does not. Categories become integer codes. A missing length of employment counts as none, a missing ratio or
count as 0. Sums of money and ratios without a natural upper bound are capped at the declared bound.
"""

from pathlib import Path

from copriv.data.schema import Category, Column, Number, Schema
from copriv.data.source import Source, Wanted, embedded
from copriv.data.tables import read_table
from copriv.errors import DataError

GRADES = tuple("ABCDEFG")
SUB_GRADES = tuple(f"{grade}{step}" for grade in GRADES for step in range(1, 6))
# fmt: off
STATES = (
    "AK", "AL", "AR", "AZ", "CA", "CO", "CT", "DC", "DE", "FL", "GA", "HI", "IA", "ID", "IL", "IN", "KS",
    "KY", "LA", "MA", "MD", "ME", "MI", "MN", "MO", "MS", "MT", "NC", "ND", "NE", "NH", "NJ", "NM", "NV",
    "NY", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VA", "VT", "WA", "WI", "WV", "WY",
)
# fmt: on
PURPOSES = (
    "car",
    "credit_card",
    "debt_consolidation",
    "educational",
    "home_improvement",
    "house",
    "major_purchase",
    "medical",
    "moving",
    "other",
    "renewable_energy",
    "small_business",
    "vacation",
    "wedding",
)

RATE_BOUND = 36.0
"""Lending Club offers no loan above a rate of 36 percent a year."""


def _money(name: str, high: float, missing: float | None = None) -> Number:
    return Number(name, 0, high, missing, cap=True)


def _counted(name: str, high: float = 100, missing: float | None = None) -> Number:
    return Number(name, 0, high, missing, cap=True)


OPENINTRO = Schema(
    columns=(
        Number("loan_amount", 500, 40_000),
        Number("term", 36, 60),
        Number("emp_length", 0, 10, missing=0),
        _money("annual_income", 1_000_000),
        Number("debt_to_income", 0, 100, missing=0, cap=True),
        _counted("delinq_2y"),
        _counted("inquiries_last_12m"),
        _counted("total_credit_lines", 200),
        _counted("open_credit_lines"),
        _money("total_credit_limit", 2_000_000),
        _money("total_credit_utilized", 1_000_000),
        _counted("public_record_bankrupt"),
        _counted("num_mort_accounts"),
        Number("account_never_delinq_percent", 0, 100),
        _counted("accounts_opened_24m"),
        _money("annual_income_joint", 1_500_000, missing=0),
        Number("debt_to_income_joint", 0, 100, missing=0, cap=True),
        _counted("months_since_last_delinq", 600, missing=0),
        Number("earliest_credit_line", 1900, 2030),
        _counted("num_collections_last_12m"),
        _counted("num_historical_failed_to_pay"),
        _counted("months_since_90d_late", 600, missing=0),
        _counted("current_accounts_delinq"),
        _money("total_collection_amount_ever", 1_000_000),
        _counted("current_installment_accounts"),
        _counted("months_since_last_credit_inquiry", 600, missing=0),
        _counted("num_satisfactory_accounts", 200),
        _counted("num_accounts_120d_past_due", missing=0),
        _counted("num_accounts_30d_past_due"),
        _counted("num_active_debit_accounts"),
        _money("total_debit_limit", 2_000_000),
        _counted("num_total_cc_accounts", 200),
        _counted("num_open_cc_accounts", 200),
        _counted("num_cc_carrying_balance"),
        _counted("tax_liens"),
        Category.coded("grade", GRADES),
        Category.coded("sub_grade", SUB_GRADES),
        Category.coded("homeownership", ("RENT", "OWN", "MORTGAGE")),
        Category.coded("verified_income", ("Not Verified", "Source Verified", "Verified")),
        Category.coded("loan_purpose", PURPOSES),
        Category.coded("state", STATES),
        Category.coded("application_type", ("individual", "joint")),
        Category.coded("initial_listing_status", ("whole", "fractional")),
        Category.coded("verification_income_joint", ("", "Not Verified", "Source Verified", "Verified"), missing=""),
        Category.coded("disbursement_method", ("Cash", "DirectPay")),
    ),
    target=Number("interest_rate", 0, RATE_BOUND),
    scaling="none",
)
"""The schema of `lending_10k.parquet`."""

MODELDATA = Schema(
    columns=(
        Number("funded_amnt", 500, 40_000),
        Category.coded("term", ("term_36", "term_60")),
        Category.coded(
            "emp_length",
            ("emp_unk", "emp_lt_1", *(f"emp_{years}" for years in range(1, 10)), "emp_ge_10"),
        ),
        _money("annual_inc", 1_000_000),
        _counted("delinq_2yrs"),
        _counted("inq_last_6mths"),
        Number("revol_util", 0, 200, cap=True),
        _counted("acc_now_delinq"),
        _counted("open_il_6m"),
        _counted("open_il_12m"),
        _counted("open_il_24m"),
        _money("total_bal_il", 1_000_000),
        Number("all_util", 0, 200, cap=True),
        _counted("inq_fi"),
        _counted("inq_last_12m"),
        _counted("num_il_tl", 200),
        _money("total_il_high_credit_limit", 1_000_000),
        Category.coded("sub_grade", SUB_GRADES),
        Category.coded("verification_status", ("Not_Verified", "Source_Verified", "Verified")),
        Category.coded("addr_state", STATES),
    ),
    target=Number("int_rate", 0, RATE_BOUND),
    scaling="none",
)
"""The schema of the table inside the package."""

_YEARS = ("1 year", *(f"{years} years" for years in range(2, 10)), "10+ years")
_PUBLISHED: tuple[Column, ...] = (
    Number("loan_amnt", 500, 40_000),
    Number("funded_amnt", 0, 40_000),
    Category.coded("term", ("36 months", "60 months")),
    Category.coded("grade", GRADES),
    Category.coded("sub_grade", SUB_GRADES),
    Category.coded("emp_length", ("n/a", "< 1 year", *_YEARS), missing="n/a"),
    Category.coded("home_ownership", ("NONE", "OTHER", "ANY", "RENT", "OWN", "MORTGAGE")),
    _money("annual_inc", 1_000_000, missing=0),
    Category.coded("verification_status", ("Not Verified", "Source Verified", "Verified")),
    Category.coded("purpose", PURPOSES),
    Category.coded("addr_state", STATES),
    Number("dti", 0, 100, missing=0, cap=True),
    _counted("delinq_2yrs", missing=0),
    _counted("inq_last_6mths", missing=0),
    _counted("open_acc", missing=0),
    _counted("pub_rec", missing=0),
    _money("revol_bal", 1_000_000, missing=0),
    Number("revol_util", 0, 200, missing=0, cap=True),
    _counted("total_acc", 200, missing=0),
    Category.coded("initial_list_status", ("w", "f")),
    Category.coded("application_type", ("INDIVIDUAL", "JOINT")),
)
PUBLISHED = Schema(_PUBLISHED, target=Number("int_rate", 0, RATE_BOUND), scaling="none")
"""The schema of the papers' file with 74 columns."""


class LendingClub:
    """Loans of a file of one of the three kinds; without a path, those inside the package."""

    name = "lending"
    own_columns = False
    read_from = "lending"
    published: tuple[tuple[str, int], ...] = (
        ("2c8bc60f648435cd294671f9cfdfdc6ec3f93b8fb08669687137aee957acb0f3", 584_296),
        ("5f470275b5dc4835a7e9a3d653571b47fdda3d603c7f3ffa6abe94a536d2a74d", 198_278),
    )

    def open(self, wanted: Wanted) -> Source:
        """Raises DataError for a table of another kind."""
        return loans_inside() if wanted.path is None else _recognised(wanted.path)


def loans_inside() -> Source:
    """The table inside the package."""
    file = embedded("lending_club_9857.parquet")
    title = "Lending Club loans of 2016 (lending_club_9857, inside the package)"
    return Source(read_table(file, MODELDATA.names), MODELDATA, title, file)


def _recognised(path: Path) -> Source:
    """A file: of the three kinds, the one whose columns it has."""
    every = {name for schema in (PUBLISHED, OPENINTRO, MODELDATA) for name in schema.names}
    table = read_table(path, sorted(every))
    have = set(table.columns)
    for schema in (PUBLISHED, OPENINTRO, MODELDATA):
        if have.issuperset(schema.names):
            return Source(table, schema, f"Lending Club loans in {path.name}", path)
    closest = min((PUBLISHED, OPENINTRO, MODELDATA), key=lambda schema: len(set(schema.names) - have))
    lacking = ", ".join(name for name in closest.names if name not in have)
    raise DataError(
        f"{path}: not a Lending Club table that is known here: it lacks {lacking}; add them, or declare your own "
        'columns with dataset = "table"'
    )
