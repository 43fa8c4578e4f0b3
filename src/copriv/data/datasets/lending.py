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

from copriv.data.schema import Category, Number, Schema
from copriv.data.source import DataSet, Source, Wanted, embedded
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
PURPOSES = (
    "car", "credit_card", "debt_consolidation", "educational", "home_improvement", "house", "major_purchase", "medical",
    "moving", "other", "renewable_energy", "small_business", "vacation", "wedding",
)
# fmt: on

RATE_BOUND = 36.0
"""Lending Club offers no loan above a rate of 36 percent a year."""


def _capped(name: str, high: float, missing: float | None = None) -> Number:
    """Declare a sum of money, a count or a ratio from 0, capped at a bound that it has not by nature."""
    return Number(name, 0, high, missing, cap=True)


OPENINTRO = Schema(
    columns=(
        Number("loan_amount", 500, 40_000),
        Number("term", 36, 60),
        Number("emp_length", 0, 10, missing=0),
        _capped("annual_income", 1_000_000),
        _capped("debt_to_income", 100, missing=0),
        _capped("delinq_2y", 100),
        _capped("inquiries_last_12m", 100),
        _capped("total_credit_lines", 200),
        _capped("open_credit_lines", 100),
        _capped("total_credit_limit", 2_000_000),
        _capped("total_credit_utilized", 1_000_000),
        _capped("public_record_bankrupt", 100),
        _capped("num_mort_accounts", 100),
        Number("account_never_delinq_percent", 0, 100),
        _capped("accounts_opened_24m", 100),
        _capped("annual_income_joint", 1_500_000, missing=0),
        _capped("debt_to_income_joint", 100, missing=0),
        _capped("months_since_last_delinq", 600, missing=0),
        Number("earliest_credit_line", 1900, 2030),
        _capped("num_collections_last_12m", 100),
        _capped("num_historical_failed_to_pay", 100),
        _capped("months_since_90d_late", 600, missing=0),
        _capped("current_accounts_delinq", 100),
        _capped("total_collection_amount_ever", 1_000_000),
        _capped("current_installment_accounts", 100),
        _capped("months_since_last_credit_inquiry", 600, missing=0),
        _capped("num_satisfactory_accounts", 200),
        _capped("num_accounts_120d_past_due", 100, missing=0),
        _capped("num_accounts_30d_past_due", 100),
        _capped("num_active_debit_accounts", 100),
        _capped("total_debit_limit", 2_000_000),
        _capped("num_total_cc_accounts", 200),
        _capped("num_open_cc_accounts", 200),
        _capped("num_cc_carrying_balance", 100),
        _capped("tax_liens", 100),
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
        Category.coded("emp_length", ("emp_unk", "emp_lt_1", *(f"emp_{years}" for years in range(1, 10)), "emp_ge_10")),
        _capped("annual_inc", 1_000_000),
        _capped("delinq_2yrs", 100),
        _capped("inq_last_6mths", 100),
        _capped("revol_util", 200),
        _capped("acc_now_delinq", 100),
        _capped("open_il_6m", 100),
        _capped("open_il_12m", 100),
        _capped("open_il_24m", 100),
        _capped("total_bal_il", 1_000_000),
        _capped("all_util", 200),
        _capped("inq_fi", 100),
        _capped("inq_last_12m", 100),
        _capped("num_il_tl", 200),
        _capped("total_il_high_credit_limit", 1_000_000),
        Category.coded("sub_grade", SUB_GRADES),
        Category.coded("verification_status", ("Not_Verified", "Source_Verified", "Verified")),
        Category.coded("addr_state", STATES),
    ),
    target=Number("int_rate", 0, RATE_BOUND),
    scaling="none",
)
"""The schema of the table inside the package."""

_YEARS = ("1 year", *(f"{years} years" for years in range(2, 10)), "10+ years")
PUBLISHED = Schema(
    columns=(
        Number("loan_amnt", 500, 40_000),
        Number("funded_amnt", 0, 40_000),
        Category.coded("term", ("36 months", "60 months")),
        Category.coded("grade", GRADES),
        Category.coded("sub_grade", SUB_GRADES),
        Category.coded("emp_length", ("n/a", "< 1 year", *_YEARS), missing="n/a"),
        Category.coded("home_ownership", ("NONE", "OTHER", "ANY", "RENT", "OWN", "MORTGAGE")),
        _capped("annual_inc", 1_000_000, missing=0),
        Category.coded("verification_status", ("Not Verified", "Source Verified", "Verified")),
        Category.coded("purpose", PURPOSES),
        Category.coded("addr_state", STATES),
        _capped("dti", 100, missing=0),
        _capped("delinq_2yrs", 100, missing=0),
        _capped("inq_last_6mths", 100, missing=0),
        _capped("open_acc", 100, missing=0),
        _capped("pub_rec", 100, missing=0),
        _capped("revol_bal", 1_000_000, missing=0),
        _capped("revol_util", 200, missing=0),
        _capped("total_acc", 200, missing=0),
        Category.coded("initial_list_status", ("w", "f")),
        Category.coded("application_type", ("INDIVIDUAL", "JOINT")),
    ),
    target=Number("int_rate", 0, RATE_BOUND),
    scaling="none",
)
"""The schema of the papers' file with 74 columns."""


def _open(wanted: Wanted, rows: int) -> Source:
    if wanted.file is None:
        return _open_embedded(wanted, rows)
    kinds = (PUBLISHED, OPENINTRO, MODELDATA)
    table = read_table(wanted.file, sorted({name for schema in kinds for name in schema.names}))
    have = set(table.columns)
    for schema in kinds:
        if have.issuperset(schema.names):
            return Source(table, schema, f"Lending Club loans in {wanted.file.name}", wanted.file)
    closest = min(kinds, key=lambda schema: len(set(schema.names) - have))
    lacking = ", ".join(name for name in closest.names if name not in have)
    raise DataError(
        f"{wanted.file}: not a Lending Club table that is known here: it lacks {lacking}; add them, or declare your own "
        'columns with dataset = "table"'
    )


def _open_embedded(wanted: Wanted, rows: int) -> Source:
    file = embedded("lending_club_9857.parquet")
    title = "Lending Club loans of 2016 (lending_club_9857, inside the package)"
    return Source(read_table(file, MODELDATA.names), MODELDATA, title, file)


LENDING = DataSet(
    "lending",
    _open,
    published=(
        ("2c8bc60f648435cd294671f9cfdfdc6ec3f93b8fb08669687137aee957acb0f3", 584_296),
        ("5f470275b5dc4835a7e9a3d653571b47fdda3d603c7f3ffa6abe94a536d2a74d", 198_278),
    ),
)
LENDING_EMBEDDED = DataSet("lending-embedded", _open_embedded, like="lending")
"""The loans inside the package: a table for trying copriv out."""
