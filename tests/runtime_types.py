"""The type checker that runs inside copriv's functions while tests run: beartype, an int being a float as in typing."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
