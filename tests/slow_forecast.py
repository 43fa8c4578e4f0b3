"""A forecast that takes as long as its agreement's name says, for tests of who waits for whom."""

import time


def prepare(agreement):
    """Sleep; must be importable by the process in which forecasts are made."""
    time.sleep(float(agreement.agreement.name))
    return agreement.fingerprint
