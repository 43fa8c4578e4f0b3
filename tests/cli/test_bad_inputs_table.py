"""Bad inputs, by the dozen: each gets the documented exit code and words that fit on one screen; never a traceback.

A row is what is changed in a good agreement, or a whole call, with what must be said. None of them computes anything: what
is wrong is found before. An exception that is not copriv's own would leave `run`, and fail the test.
"""

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import copriv as library
from copriv.errors import CoprivError
from loans import ALIKE as GOOD

HUGE = "1" + "0" * 400

# What is changed, into what, and what must be said.
AGREEMENTS = {
    "an unclosed table": ("[[owner]]", "[[owner", "not valid TOML"),
    "a key twice": ("seed = 7", "seed = 7\nseed = 8", "not valid TOML"),
    "a comma too many": ("seed = 7", "seed = 7,", "not valid TOML"),
    "budget below 0": ("epsilon = 1.0", "epsilon = -1.0", 'owner.0.epsilon of "Alpha"'),
    "budget 0": ("epsilon = 1.0", "epsilon = 0", "greater than 0"),
    "budget nan": ("epsilon = 1.0", "epsilon = nan", "finite number"),
    "budget infinite": ("epsilon = 1.0", "epsilon = inf", "finite number"),
    "budget in quotes": ("epsilon = 1.0", 'epsilon = "1.0"', "must be a number"),
    "budget true": ("epsilon = 1.0", "epsilon = true", "must be a number"),
    "budget a list": ("epsilon = 1.0", "epsilon = [1.0]", "must be a number"),
    "budget a date": ("epsilon = 1.0", "epsilon = 2020-01-01", "must be a number"),
    "budget 1e300": ("epsilon = 1.0", "epsilon = 1e300", "at most 1e+12"),
    "budget 1e200": ("epsilon = 1.0", "epsilon = 1e200", "at most 1e+12"),
    "budget 1e-300": ("epsilon = 1.0", "epsilon = 1e-300", "at least 1e-12"),
    "budget of 400 digits": ("epsilon = 1.0", f"epsilon = {HUGE}", "401 digits"),
    "no budget": ("epsilon = 1.0", "", 'owner.0.epsilon of "Alpha": missing'),
    "records 0": ("records = 2000", "records = 0", "how many records the owner holds"),
    "records below 0": ("records = 2000", "records = -5", "at least 1"),
    "records a half": ("records = 2000", "records = 2000.5", "whole number"),
    "records with a point": ("records = 2000", "records = 2000.0", "whole number"),
    "records of 31 digits": ("records = 2000", "records = 1" + "0" * 30, "at most 1e+15"),
    "records of 400 digits": ("records = 2000", f"records = {HUGE}", "at most 1e+15"),
    "records in words": ("records = 2000", 'records = "many"', "whole number"),
    "a name twice": ('"Beta"', '"Alpha"', "stands twice"),
    "no name": ('"Beta"', '""', "must not be empty; give every owner a name"),
    "a name that is a number": ('"Beta"', "7", "words in quotes"),
    "markup in a name": ('"Beta"', '"[bold red]B[/]"\nrecrods = 3', "[bold red]B[/]"),
    "escapes in a name": ('"Beta"', '"B\\u001b[2Jx"\nrecrods = 3', "\\x1b[2J"),
    "a line in a name": ('"Beta"', '"B\\nerror: gone"\nrecrods = 3', "\\x0a"),
    "writing turned round": ('"Beta"', '"B\\u202eabc"\nrecrods = 3', "\\u202e"),
    "a name of a thousand letters": ('"Beta"', f'"{"B" * 1000}"\nrecrods = 3', "BBB…"),
    "a key misspelt": ("epsilon = 1.0", "epsilon = 1.0\nepsilonn = 2", "did you mean epsilon?"),
    "a key from elsewhere": ("seed = 7", "seed = 7\nloss = 3", "agreement.loss: not a key"),
    "a table misspelt": ("[model]", "[modle]", "did you mean model?"),
    "a table too many": ("[model]", "[extra]\n[model]", "extra: not a key"),
    "no such rule": ('"A2"', '"A3"', "there is no rule"),
    "a rule in small letters": ('"A2"', '"a2"', "there is no rule"),
    "a rule with spaces": ('"A2"', '" A2 "', "there is no rule"),
    "no such loss": ('"squared"', '"mse"', "not a loss"),
    "no such data set": ('"lending-embedded"', '"iris"', "not known"),
    "a data set that is a path": ('"lending-embedded"', '"../../etc/passwd"', "not known"),
    "a loss for classes": ('"squared"', '"logistic"', "logistic"),
    "owner as one table": ("[[owner]]", "[owner]", "TOML"),
    "horizon 0": ("horizon = 100", "horizon = 0", "such as 100"),
    "horizon below 0": ("horizon = 100", "horizon = -1", "at least 1"),
    "horizon a half": ("horizon = 100", "horizon = 1.5", "whole number"),
    "horizon of 400 digits": ("horizon = 100", f"horizon = {HUGE}", "at most"),
    "answers 0": ("answers = 3", "answers = 0", "the most answers"),
    "step 0": ("step = 4000.0", "step = 0", 'or "auto"'),
    "step in words": ("step = 4000.0", 'step = "big"', 'or "auto"'),
    "step nan": ("step = 4000.0", "step = nan", "agreement.step"),
    "seed below 0": ("seed = 7", "seed = -7", "at least 0"),
    "seed a half": ("seed = 7", "seed = 0.5", "whole number"),
    "bound 0": ("gradient_bound = 3.0", "gradient_bound = 0", "greater than 0"),
    "bound in words": ("gradient_bound = 3.0", 'gradient_bound = "small"', '"proved", "auto"'),
    "box of nothing": ("theta_max = 1e5", "theta_max = 0", "greater than 0"),
    "regularization below 0": ("regularization = 1e-5", "regularization = -1e-5", "at least 0"),
    "components below 0": ("components = 5", "components = -5", "at least 0"),
    "components 999": ("components = 5", "components = 999", "components"),
    "no public rows": ("public_rows = 500", "public_rows = 0", "components is of such rows"),
    "one public row": ("public_rows = 500", "public_rows = 1", "public rows"),
    "heterogeneity below 0": ("components = 5", "components = 5\nheterogeneity = -1", "heterogeneity"),
    "heterogeneity turned round": ("components = 5", "components = 5\nheterogeneity = [0.3, 0.1]", "from low to high"),
    "heterogeneity of three": ("components = 5", "components = 5\nheterogeneity = [0.1, 0.2, 0.3]", "heterogeneity"),
    "bounds without a table": ("components = 5", "components = 5\nbounds = 3", "must be a table"),
    "bounds of three": ("components = 5", "components = 5\nbounds = {a = [0, 1, 2]}", "data.bounds.a"),
    "bounds in words": ("components = 5", 'components = 5\nbounds = {a = "0..1"}', "data.bounds.a"),
    "features without a target": ('dataset = "lending-embedded"', 'features = ["a"]', "target"),
    "features in one string": ('dataset = "lending-embedded"', 'features = "a"\ntarget = "b"', "features"),
    "a target among the features": (
        'dataset = "lending-embedded"', 'features = ["a"]\ntarget = "a"\nbounds = {a = [0, 1]}', "among the features"
    ),
    "a column that nobody declared": (
        'dataset = "lending-embedded"', 'features = ["a"]\ntarget = "b"\nbounds = {b = [0, 1]}', "data.bounds.a"
    ),
    "data without a set": ('dataset = "lending-embedded"', 'path = "nope.csv"', "names no data"),
    "a file that is not there": ('dataset = "lending-embedded"', 'dataset = "lending"\npath = "nope.csv"', "nope.csv"),
    "a folder for a file": ('dataset = "lending-embedded"', 'dataset = "lending"\npath = "."', "."),
    "delta 1": ("epsilon = 1.0", "epsilon = 1.0\ndelta = 1.0", "less than 1"),
    "overlap beyond the owners": ("epsilon = 1.0", "epsilon = 1.0\noverlap = 9", "at most the number of owners"),
    "a weight for one": ("epsilon = 1.0", "epsilon = 1.0\nweight = 1.0", "every owner a weight"),
    "a unit for one": ("epsilon = 1.0", 'epsilon = 1.0\nunit = "who"', "the same for every owner"),
    "rate 0": ("epsilon = 1.0", "epsilon = 1.0\nrate = 0", "rate"),
    "no such mechanism": ("seed = 7", 'seed = 7\nmechanism = "magic"', "magic"),
    "no such schedule": ("seed = 7", 'seed = 7\nschedule = "often"', "must be one of"),
    "no such communication": ("seed = 7", 'seed = 7\ncommunication = "sync"', '"synchronous"'),
    "a start in words": ("seed = 7", 'seed = 7\nstart = ["a"]', "agreement.start.0"),
    "a start of another length": ("seed = 7", "seed = 7\nstart = [1.0, 2.0]", "start"),
    "a lopsided preconditioner": ("seed = 7", "seed = 7\npreconditioner = [[1.0], [1.0, 2.0]]", "preconditioner"),
    "a name of spaces": ('"Beta"', '"   "', "no letter that can be seen"),
    "a name and a space": ('"Beta"', '"Alpha "', "begins or ends with a space"),
    "a name that cannot be seen": ('"Beta"', '"B\\u0000"', "characters that cannot be seen"),
    "a name of a filler": ('"Beta"', '"\\u3164"', "characters that cannot be seen"),
    "a name with a selector": ('"Beta"', '"Alpha\\ufe0f"', "characters that cannot be seen"),
    "a name of two spaces": ('"Beta"', '"B  a"', "two spaces together"),
    "a name of another space": ('"Beta"', '"B\\u00a0a"', "two spaces together, or one of another kind"),
    "a name turned round": ('"Beta"', '"\\u202eB"', "characters that cannot be seen"),
    "a name of ten thousand letters": ('"Beta"', f'"{"B" * 10_000}"', "200 at most"),
    "a name twice, written in two ways": (
        '"Alpha"\nrecords = 2000\nepsilon = 1.0\n\n[[owner]]\nname = "Beta"',
        '"\\u00e9"\nrecords = 2000\nepsilon = 1.0\n\n[[owner]]\nname = "e\\u0301"',
        "stands twice",
    ),
    "bound 1e308": ("gradient_bound = 3.0", "gradient_bound = 1e308", "at most 1e+30"),
    "bound 1e-308": ("gradient_bound = 3.0", "gradient_bound = 1e-308", "at least 1e-30"),
    "box 1e308": ("theta_max = 1e5", "theta_max = 1e308", "at most 1e+30"),
    "box 1e-308": ("theta_max = 1e5", "theta_max = 1e-308", "at least 1e-30"),
    "regularization 1e308": ("regularization = 1e-5", "regularization = 1e308", "at most 1e+30"),
    "step 1e308": ("step = 4000.0", "step = 1e308", "at most 1e+30"),
    "mean square 1e308": ("components = 5", "components = 5\nmean_square = 1e308", "at most 1e+12"),
    "mean square 1e-300": ("components = 5", "components = 5\nmean_square = 1e-300", "at least 1e-12"),
    "feature bound 1e308": ("components = 5", "components = 5\nfeature_bound = 1e308", "at most 1e+30"),
    "heterogeneity 1e308": ("components = 5", "components = 5\nheterogeneity = 1e308", "at most 1e+06"),
    "ten million waves": ("components = 5", "components = 5\nfourier_features = 10000000", "at most 100000"),
    "a width without waves": ("components = 5", "components = 5\nfourier_width = 1.0", "without waves"),
    "a billion owners": ("epsilon = 1.0", "epsilon = 1.0\ncount = 1000000000", "at most 1,000,000"),
    "weights 1e308": (
        'epsilon = 1.0\n\n[[owner]]\nname = "Beta"\n',
        'epsilon = 1.0\nweight = 1e308\n\n[[owner]]\nname = "Beta"\nweight = 1e308\n', "at most 1e+30",
    ),
    "a start that is no number": ("seed = 7", "seed = 7\nstart = [nan, 0, 0, 0, 0]", "finite number"),
    "a start out of sight": ("seed = 7", "seed = 7\nstart = [1e308, 0, 0, 0, 0]", "at most 1e+30"),
    "a preconditioner that climbs": ("seed = 7", "seed = 7\npreconditioner = [[-1, 0], [0, 1]]", "positive definite"),
    "a preconditioner of nothing": ("seed = 7", "seed = 7\npreconditioner = [[0, 0], [0, 0]]", "positive definite"),
    "an indefinite preconditioner": ("seed = 7", "seed = 7\npreconditioner = [[1, 5], [5, 1]]", "positive definite"),
    "a thousand brackets": ("seed = 7", f"seed = {'[' * 10_000}", "nested too deeply"),
    "a key of five thousand letters": ("seed = 7", f"seed = 7\n{'k' * 5000} = 1", "kkk…"),
    "a path of five thousand letters": (
        'dataset = "lending-embedded"', f'dataset = "lending"\npath = "{"x" * 1000}.csv"', "xxx"
    ),
    "delta that nothing uses": (
        "epsilon = 1.0", "epsilon = 1.0\ndelta = 1e-6", 'set delta = 0, choose mechanism = "gaussian", or rule = "auto"'
    ),
    "one bound": ("components = 5", "components = 5\nbounds = {a = [0]}", "declare [low, high]"),
    "bounds that are true": ("components = 5", "components = 5\nbounds = {a = [false, true]}", "must be a number, not False"),
    "levels that are numbers": ("components = 5", "components = 5\ncategories = {a = [1, 2]}", "not 1"),
    # What an owner states in a market.
    "a market without worth": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {privacy_cost = {linear = 1.0}}", 'market.worth of "Alpha": missing'
    ),
    "a market without a cost": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0}",
        "such as {worth = 100.0, privacy_cost = {linear = 2.0}}",
    ),
    "a market that is a number": ("epsilon = 1.0", "epsilon = 1.0\nmarket = 3", "must be a table, not 3; state worth"),
    "a cost that is a number": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = 3}",
        'privacy_cost of "Alpha": must be a table',
    ),
    "worth below 0": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = -1.0, privacy_cost = {linear = 1.0}}",
        "at least 0, not -1.0; state worth",
    ),
    "worth nan": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {worth = nan, privacy_cost = {linear = 1.0}}", "finite number"
    ),
    "worth 1e308": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {worth = 1e308, privacy_cost = {linear = 1.0}}", "at most 1e+30"
    ),
    "worth in words": (
        "epsilon = 1.0",
        'epsilon = 1.0\nmarket = {worth = "much", privacy_cost = {linear = 1.0}}',
        "must be a number, not 'much'",
    ),
    "worth true": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = true, privacy_cost = {linear = 1.0}}",
        "must be a number, not True",
    ),
    "worth misspelt": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {wroth = 1.0, privacy_cost = {linear = 1.0}}", "did you mean worth?"
    ),
    "a cost misspelt": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {lineer = 1.0}}", "did you mean linear?"
    ),
    "a cost of two shapes": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {linear = 1.0, quadratic = 1.0}}",
        "give one shape of linear, quadratic, threshold and table, not 2",
    ),
    "a cost of no shape": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {}}", "threshold and table, not 0"
    ),
    "a cost below 0": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {linear = -1.0}}", "at least 0"
    ),
    "a cost of 1e308": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {quadratic = 1e308}}", "at most 1e+30"
    ),
    "a threshold alone": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {threshold = 1.0}}",
        "threshold and above belong together",
    ),
    "a threshold of 0": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {threshold = 0, above = 1.0}}",
        "greater than 0",
    ),
    "above beside a line": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {linear = 1.0, above = 1.0}}",
        "threshold and above belong together",
    ),
    "a table of nothing": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {table = []}}", "must have at least one"
    ),
    "a table that is a number": (
        "epsilon = 1.0", "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {table = 3}}", "must be a list"
    ),
    "a table that falls": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {table = [[1.0, 2.0], [2.0, 1.0]]}}",
        "their money must not fall",
    ),
    "a table turned round": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {table = [[2.0, 1.0], [1.0, 2.0]]}}",
        "must rise in epsilon",
    ),
    "a point of three": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {table = [[1.0, 2.0, 3.0]]}}",
        "must have at most 2 values",
    ),
    "a point of one": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {table = [[1.0]]}}",
        'privacy_cost.table.0 of "Alpha": has too few values; state worth',
    ),
    "a point in words": (
        "epsilon = 1.0",
        'epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {table = [["a", 1.0]]}}',
        "must be a number, not 'a'",
    ),
    "a point at 0": (
        "epsilon = 1.0",
        "epsilon = 1.0\nmarket = {worth = 1.0, privacy_cost = {table = [[0.0, 1.0]]}}",
        "greater than 0",
    ),
    "a lot of nothing": ("epsilon = 1.0", "epsilon = 1.0\nlot = 0", "at least 1, not 0; it is how many records"),
    "a lot and a half": ("epsilon = 1.0", "epsilon = 1.0\nlot = 1.5", "whole number"),
    # A pilot, and what it may choose.
    "a pilot of everything": (
        "seed = 7", "seed = 7\npilot = 1.0", "give the share of each budget that the pilot may take, such as 0.1"
    ),
    "a pilot below 0": ("seed = 7", "seed = 7\npilot = -0.1", "must be at least 0"),
    "a pilot nan": (
        "seed = 7", "seed = 7\npilot = nan", "give the share of each budget that the pilot may take, such as 0.1"
    ),
    "a pilot infinite": (
        "seed = 7", "seed = 7\npilot = inf", "give the share of each budget that the pilot may take, such as 0.1"
    ),
    "a pilot in words": (
        "seed = 7", 'seed = 7\npilot = "some"', "give the share of each budget that the pilot may take, such as 0.1"
    ),
    "a pilot in percent": (
        "seed = 7", 'seed = 7\npilot = "10%"', "give the share of each budget that the pilot may take, such as 0.1"
    ),
    "a pilot true": (
        "seed = 7", "seed = 7\npilot = true", "give the share of each budget that the pilot may take, such as 0.1"
    ),
    "a pilot in a list": (
        "seed = 7", "seed = 7\npilot = [0.1]", "give the share of each budget that the pilot may take, such as 0.1"
    ),
    "a pilot of next to nothing": ("seed = 7", "seed = 7\npilot = 1e-300", "at least 1e-12"),
    "a pilot misspelt": ("seed = 7", "seed = 7\npilott = 0.1", "did you mean pilot?"),
    "a pilot after the pilot": ("seed = 7", 'seed = 7\npilot = 0.1\nmechanism = "pilot"', "mechanism"),
    "a sum of two": ("seed = 7", 'seed = 7\npilot = 0.1\naggregation = "sum"\ngroup_size = 2', "at most N - 2 = 0"),
    "a pilot on a graph": ("seed = 7", 'seed = 7\npilot = 0.1\ngraph = "ring"', "leave"),
    "ranges without a pilot": ("seed = 7", "seed = 7\nranges = {step = [0.1, 1.0]}", "or leave ranges out"),
    "ranges of a guarantee": (
        "seed = 7",
        "seed = 7\npilot = 0.1\nranges = {epsilon = [0.1, 1.0]}",
        "is fixed before a pilot; its answers choose among step",
    ),
    "ranges turned round": (
        "seed = 7", "seed = 7\npilot = 0.1\nranges = {step = [1.0, 0.1]}", "from low to high, not from 1 to 0.1"
    ),
    "ranges below 0": ("seed = 7", "seed = 7\npilot = 0.1\nranges = {step = [-1.0, 0.1]}", "its range begins at -1"),
    "ranges of one": (
        "seed = 7", "seed = 7\npilot = 0.1\nranges = {step = [1.0]}", "has too few values; give [low, high]"
    ),
    "ranges of three": (
        "seed = 7", "seed = 7\npilot = 0.1\nranges = {step = [1.0, 2.0, 3.0]}", "must have at most 2 values"
    ),
    "ranges nan": ("seed = 7", "seed = 7\npilot = 0.1\nranges = {step = [nan, 1.0]}", "finite number"),
    "ranges that are a number": (
        "seed = 7", "seed = 7\npilot = 0.1\nranges = 3", "must be a table, not 3.0; give [low, high]"
    ),
    "ranges in words": ("seed = 7", 'seed = 7\npilot = 0.1\nranges = {step = ["a", "b"]}', "must be a number, not 'a'"),
    "pilot's terms without a pilot": (
        "seed = 7",
        "seed = 7\npilot_terms = {start = [0.0], gradient_bound = 1.0, feature_bound = 1.0}",
        "or leave pilot_terms out",
    ),
    "pilot's terms that are a number": (
        "seed = 7", "seed = 7\npilot = 0.1\npilot_terms = 3", "copriv forecast --out DIR writes them"
    ),
    "pilot's terms in part": (
        "seed = 7", "seed = 7\npilot = 0.1\npilot_terms = {start = [0.0]}", "gradient_bound: missing"
    ),
    "pilot's terms misspelt": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = {start = [0.0], gradient_bound = 1.0, feature_bound = 1.0, los_bound = 1}",
        "did you mean loss_bound?",
    ),
    "a pilot that no owner would answer": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = {start = [1e9], gradient_bound = 1.0, feature_bound = 1.0}",
        "owners answer within model.theta_max",
    ),
    "a pilot's bound below 0": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = {start = [0.0], gradient_bound = -1.0, feature_bound = 1.0}",
        "greater than 0",
    ),
    "a pilot's loss bound of 0": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = {start = [0.0], gradient_bound = 1.0, feature_bound = 1.0, loss_bound = 0}",
        "greater than 0",
    ),
    "a pilot's start nan": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = {start = [nan], gradient_bound = 1.0, feature_bound = 1.0}",
        "finite number",
    ),
    "a pilot's start of another length": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = {start = [0.0], gradient_bound = 1.0, feature_bound = 1.0}",
        "pilot_terms.start: 1 numbers for 5 parameters; give one",
    ),
    "a pilot's start of nothing": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = {start = [], gradient_bound = 1.0, feature_bound = 1.0}",
        "pilot_terms.start: 0 numbers for 5 parameters",
    ),
    "a pilot's metric that climbs": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = {start = [0.0], gradient_bound = 1, feature_bound = 1, preconditioner = [[-1]]}",
        "positive definite",
    ),
    "a pilot's metric of which a direction is 0": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = "
        "{start = [0, 0], gradient_bound = 1, feature_bound = 1, preconditioner = [[1, 0], [0, 0]]}",
        "pilot_terms.preconditioner: has a direction of which it is 0",
    ),
    "a pilot's parts beside it": (
        "seed = 7", "seed = 7\npilot = 0.1\npilot_parts = {gradient = 1.0}", "stand in pilot_terms"
    ),
    "a pilot's loss without a bound": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = "
        "{start = [0], gradient_bound = 1, feature_bound = 1, pilot_parts = {gradient = 0.9, loss = 0.1}}",
        "agreement.pilot_terms: pilot_parts: a mean loss takes",
    ),
    "a pilot's metric of another size": (
        "seed = 7",
        "seed = 7\npilot = 0.1\npilot_terms = "
        "{start = [0, 0, 0, 0, 0], gradient_bound = 1, feature_bound = 1, preconditioner = [[1]]}",
        "needs 5 rows of 5 numbers",
    ),
    "an agreement without words": ("[agreement]", "agreement = 3\n[x]", "must be a table"),
}  # fmt: skip


def one_screen(done, code):
    assert done.code == code
    assert done.out == ""
    lines = done.err.splitlines()
    assert 1 <= len(lines) <= 24
    assert all(len(line) <= 1620 for line in lines)
    assert lines[0].startswith("error: ")
    assert len(lines) == 1 or all(line.startswith("  ") for line in lines[1:])
    assert not re.search(r"Traceback|Warning|Input should|pydantic|Errno 0", done.err)
    assert "\x1b" not in done.err
    return done.err


@pytest.mark.parametrize("command", ["simulate", "forecast"])
@pytest.mark.parametrize("case", AGREEMENTS)
def test_bad_agreements(copriv, tmp_path, case, command):
    old, new, said = AGREEMENTS[case]
    assert old in GOOD
    path = tmp_path / "a.toml"
    path.write_text(GOOD.replace(old, new, 1))
    assert said in one_screen(copriv(command, path, "--out", tmp_path / "out"), 3)
    assert not (tmp_path / "out").exists()


# Whole calls: what is typed, the exit code, and what must be said. In the folder are good.toml, people.csv, a file, a folder.
CALLS = {
    "an agreement that is not there": ("forecast nope.toml", 3, "nope.toml"),
    "a folder for an agreement": ("forecast folder", 3, "folder"),
    "a picture for an agreement": ("forecast picture.png", 3, "picture.png"),
    "nothing for an agreement": (f"forecast {os.devnull}", 3, "missing"),
    "another alphabet": ("forecast utf16.toml", 3, "utf16.toml: is no text"),
    "a folder below a file": ("forecast good.toml --out file/x", 2, "file is a file"),
    "a file for a folder": ("simulate good.toml --out file", 2, "file"),
    "runs 0": ("forecast good.toml --runs 0", 2, "it must be"),
    "runs in words": ("forecast good.toml --runs abc", 2, "whole number"),
    "runs without end": ("simulate good.toml --runs 1000000000000", 2, "1000000"),
    "runs of 400 digits": (f"simulate good.toml --runs {HUGE}", 2, "--runs"),
    "seed below 0": ("forecast good.toml --seed -1", 2, "--seed"),
    "workers 0": ("simulate good.toml --workers 0", 2, "--workers"),
    "workers below 0": ("simulate good.toml --workers -1", 2, "--workers"),
    "two agreements": ("forecast good.toml good.toml", 2, "good.toml"),
    "no such option": ("forecast good.toml --fast", 2, "--fast"),
    "an option without its value": ("forecast good.toml --runs", 2, "--runs"),
    "no such command": ("forcast good.toml", 2, "forcast"),
    "no such command below data": ("data chekc good.toml", 2, "chekc"),
    "target 0": ("forecast good.toml --target 0", 2, "2% or 0.02"),
    "target in words": ("forecast good.toml --target near", 2, "2% or 0.02"),
    "without a stranger": ("forecast good.toml --without Gamma", 2, "Alpha, Beta"),
    "without everybody": ("forecast good.toml --without Alpha --without Beta", 2, "nobody would be left"),
    "init over a file": ("init good.toml", 2, "is there already"),
    "init over a folder": ("init folder", 2, "is there already"),
    "init over a folder by force": ("init folder --force", 2, "directory"),
    "init in a file": ("init file/a.toml", 1, "cannot write"),
    "a network of nothing": ("init --network nope.toml net", 3, "nope.toml"),
    "a network for ever": ("init --network good.toml net --days 9999999", 2, "days"),
    "a network for no day": ("init --network good.toml net --days 0", 2, "--days"),
    "a network with public rows that are not there": ("init --network good.toml net --public nope.csv", 3, "nope.csv"),
    "a network with a folder of public rows": ("init --network good.toml net --public folder", 3, "folder"),
    "a ledger that is not there": ("ledger show nope.ledger", 1, "nope.ledger"),
    "a ledger that is a folder": ("ledger show folder", 1, "folder: is a folder; give the path of"),
    "checking nothing": ("ledger verify nope.ledger", 1, "nope.ledger"),
    "a run that is not there": ("verify nope.run", 1, "nope.run"),
    "a model that is not there": ("predict nope.json people.csv", 3, "nope.json"),
    "a table without an owner": ("data check people.csv --agreement own.toml", 2, "--owner"),
    "a table without an agreement": ("data check people.csv", 2, "--agreement"),
    "a network over a file": ("init --network good.toml file", 1, "file"),
    "a ledger that is an agreement": ("ledger show good.toml", 4, "give the path of an owner's ledger"),
    "a run that is an agreement": ("verify good.toml", 1, "good.toml"),
    "a model that is an agreement": ("predict good.toml people.csv", 3, "it is no JSON"),
    "a table of a stranger": ("data check people.csv --agreement own.toml --owner z", 2, "name one of"),
    "a data set that is not there": ("data fetch iris", 3, "iris"),
    "an owner without anything": ("owner serve", 2, "--agreement"),
    "an owner with too little": ("owner serve --agreement good.toml", 2, "--"),
    "a learner without keys": ("learner good.toml", 2, "--"),
    "a pipe that nobody writes into": ("simulate pipe", 3, "missing"),
    "a file without end": ("simulate /dev/zero", 3, "larger than 200 MB"),
    "public rows without a network": ("init new.toml --public people.csv", 2, "goes with --network"),
    "days without a network": ("init new.toml --days 3", 2, "goes with --network"),
    "a template of a network": ("init --network good.toml net --template", 2, "does not go with --network"),
    "a network by force": ("init --network good.toml net --force", 2, "does not go with --network"),
    "a pipe for an agreement": ("init pipe --force", 1, "a device or a pipe"),
    "a query of a file": ("data check people.csv --agreement own.toml --owner a --query x", 2, "is for a data base"),
    "a run that is a folder": ("verify folder", 1, "folder: is a folder; give the file of"),
    "a download that is a folder": ("data fetch lending --from folder", 3, "folder: is a folder; give the path of"),
    "a stranger's check of an agreement": ("data check good.toml --owner z", 2, "'z'; name one of"),
    "keys where nothing can be": ("owner keys /proc/nothing/keys", 1, "Give a path that can be written to"),
    "a learner with a store alone": ("learner good.toml --store s.db", 3, "the learner speaks with its keys only"),
    "a model of brackets": ("predict brackets.json people.csv", 3, "it is no JSON"),
    "a forecast of brackets": ("report x.ledger --forecast brackets.json", 3, "it is no JSON"),
    "own learners of a picture": ("own-learners picture.png", 3, "picture.png: is no text"),
    "a page of a folder": ("ui folder", 3, "folder: cannot read the agreement"),
    "no dictionary": ("forecast dictionary.toml", 3, "(No such file or directory)"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "own.toml").write_text(
        '[agreement]\nrule = "S2"\nhorizon = 5\nstep = 1.0\n[model]\nloss = "squared"\ngradient_bound = 1.0\n'
        '[data]\nfeatures = ["age"]\ntarget = "income"\nbounds = {age = [0, 120], income = [0, 10]}\n'
        '[[owner]]\nname = "a"\nrecords = 2\nepsilon = 1.0\n'
    )
    (tmp_path / "people.csv").write_text("age,income\n20,1\n30,2\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    (tmp_path / "utf16.toml").write_bytes(GOOD.encode("utf-16"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "brackets.json").write_text("[" * 100_000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "dictionary.toml").write_text(GOOD.replace("components = 5", 'components = 5\ndictionary = "no.json"'))
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize("case", CALLS)
def test_bad_calls(copriv, folder, case):
    typed, code, said = CALLS[case]
    assert said in one_screen(copriv(*typed.split()), code)


def test_a_table_that_cannot_be_opened_is_a_problem_of_the_table(copriv, folder):
    for name in ("nope.csv", "folder", "file"):
        done = copriv("data", "check", name, "--agreement", "own.toml", "--owner", "a")
        assert done.code == 3
        assert name in done.out
        assert len(done.out.splitlines()) <= 5


TABLES = {
    "a column twice": ("age,age,income\n20,20,1\n30,30,2\n", "age"),
    "cells too few": ("age,income\n20,1\n30\n", "line 3 has 1 cell, and the header 2"),
    "semicolons": ("age;income\n20;1\n", "parted by semicolons"),
    "semicolons and decimal commas": ("age;income\n20,5;1,5\n", "parted by semicolons"),
    "thousands": ('age,income\n"1,000",1\n20,2\n', "nothing between thousands"),
    "underscores": ("age,income\n2_0,1\n30,2\n", "'2_0', not a number"),
    "digits of another script": ("age,income\n٢٠,1\n30,2\n", "not a number"),
    "UTF-16": ("age,income\n20,1\n30,2\n".encode("utf-16"), "is UTF-16 text"),
    "UTF-16 without a mark": ("age,income\n20,1\n30,2\n".encode("utf-16-le"), "zeros between its letters"),
    "UTF-32": ("age,income\n20,1\n30,2\n".encode("utf-32"), "UTF-16"),
    "zeros": (bytes(1000), "zeros between its letters"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "is a picture"),
    "an archive": (b"PK\x03\x04" + bytes(range(256)), "zip archive or a spreadsheet"),
    "compressed": (b"\x1f\x8b" + bytes(range(256)), "is compressed"),
    "any bytes": (bytes(range(256)) * 20, "people.csv"),
    "Latin 1": ("age,income\n20,1\n\u00fc,2\n".encode("latin-1"), "age, row 2: is not UTF-8 text (byte 0xfc)"),
    "a word of a hundred thousand letters": (f"age,income\n20,1\n{'x' * 100_000},2\n", "xxx…"),
    "days for numbers": ("age,income\n2020-01-01,1\n2020-01-02,2\n", "is '2020-01-01', not a number"),
    "the year 0": ("age,income\n0000-01-01,1\n0000-01-02,2\n", "is '0000-01-01', not a number"),
    "no header": ("20,1\n30,2\n", "age"),
    "nothing": ("", "people.csv"),
    "only a header": ("age,income\n", "no rows"),
    "a row too short": ("age,income\n20,1\n30\n", "people.csv"),
    "a row too long": ("age,income\n20,1\n30,2,3\n", "people.csv"),
    "words for numbers": ("age,income\n20,1\nthirty,2\n", "age, row"),
    "out of bounds": ("age,income\n20,1\n300,2\n", "above its declared bound"),
    "infinite": ("age,income\n20,1\ninf,2\n", "age, row"),
    "zeros in it": ("age,income\n20,1\n3\x000,2\n", "age"),
}


@pytest.mark.parametrize("case", TABLES)
def test_bad_tables(copriv, folder, case):
    content, said = TABLES[case]
    (folder / "people.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    done = copriv("data", "check", "people.csv", "--agreement", "own.toml", "--owner", "a")
    assert done.code == 3
    assert said in done.out + done.err
    assert len((done.out + done.err).splitlines()) <= 24
    assert all(len(line) <= 800 for line in done.out.splitlines())
    assert "Traceback" not in done.out + done.err
    assert done.out.replace("\n", "").isprintable()


DECLARED = """features = ["age", "kind", "day", "ok"]
target = "income"
bounds = {age = [0, 120], income = [0, 10]}
categories = {kind = ["01", "02"]}
dates = {day = ["2020-01-01", "2021-01-01"]}
booleans = ["ok"]
components = 0
feature_bound = 1.0
"""
DECLARATIONS = {
    "bounds turned round": ("[0, 120]", "[120, 0]", "data.bounds.age: bounds must be two finite numbers"),
    "one level": ('["01", "02"]', '["01"]', "declare two or more"),
    "a level with a space": ('["01", "02"]', '["01", " 02"]', "begins or ends with a space"),
    "days turned round": ('["2020-01-01", "2021-01-01"]', '["2021-01-01", "2020-01-01"]', "before the last"),
    "days of another country": ('"2020-01-01"', '"01.01.2020"', "'01.01.2020' is not a day"),
    "years for days": ('["2020-01-01", "2021-01-01"]', "[2020, 2021]", "'2020' is not a day"),
    "one day": ('["2020-01-01", "2021-01-01"]', '["2020-01-01"]', "has too few values"),
    "declared twice": ('["ok"]', '["ok", "kind"]', "both categories and booleans"),
    "a feature twice": ('features = ["age",', 'features = ["age", "age",', "'age' stands twice"),
    "missing outside": ("components = 0", "components = 0\nmissing = {age = 200}", "outside its own bounds"),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_bad_declarations(copriv, folder, case):
    old, new, said = DECLARATIONS[case]
    assert old in DECLARED
    own = (folder / "own.toml").read_text()
    head, tail = own.split("[data]\n")[0], own[own.index("[[owner]]") :]
    (folder / "own.toml").write_text(f"{head}[data]\n{DECLARED.replace(old, new, 1)}{tail}")
    (folder / "people.csv").write_text("age,kind,day,ok,income\n20,01,2020-02-01,true,1\n30,02,2020-03-01,no,2\n")
    assert said in one_screen(copriv("data", "check", "people.csv", "--agreement", "own.toml", "--owner", "a"), 3)


def test_all_that_is_wrong_with_columns_is_said_at_once(copriv, folder):
    own = (folder / "own.toml").read_text()
    (folder / "own.toml").write_text(
        own.replace('features = ["age"]', 'features = ["age", "height", "weight"]').replace("[0, 120]", "[120, 0]")
    )
    said = one_screen(copriv("data", "check", "people.csv", "--agreement", "own.toml", "--owner", "a"), 3)
    for wrong in ("data.bounds.age", "data.bounds.height", "data.bounds.weight"):
        assert wrong in said


@pytest.mark.parametrize(("name", "value"), [("RUNS", "abc"), ("JSON", "maybe"), ("SEED", "-1"), ("RUNS", "")])
def test_bad_variables(copriv, folder, monkeypatch, name, value):
    monkeypatch.setenv(f"COPRIV_{name}", value)
    if value:
        assert f"COPRIV_{name}" in one_screen(copriv("forecast", "good.toml"), 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to write to")
def test_a_full_disk_is_said_in_one_line(folder, copriv):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from copriv.cli import main; main()", "data", "check", "good.toml", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder,
        )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert 1 <= len(done.stderr.splitlines()) <= 3


def test_closed_streams_are_no_error(folder):
    """As a service has them: nothing to read from, nowhere to write to."""
    command = [sys.executable, "-c", "from copriv.cli import main; main()", "data", "check", "good.toml"]
    shell = " ".join(f"'{part}'" for part in command) + " <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], cwd=folder).returncode == 0


def test_a_ctrl_c_that_a_library_drops_is_given_once_more(copriv, folder, monkeypatch):
    """Libraries in other languages print "Exception ignored" and go on."""

    class Dropping:
        def __del__(self):
            raise KeyboardInterrupt

    def drops(*_, **__):
        Dropping()
        for _ in range(500):
            time.sleep(0.01)

    monkeypatch.setattr("copriv.cli.commands.simulate.simulate", drops)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's job in the background ignores
    try:
        done = copriv("simulate", "good.toml")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.code, done.err) == (130, "error: interrupted\n")


def test_a_service_without_a_home_draws_without_a_word(folder):
    environment = {**os.environ, "HOME": "/dev/null", "PYTHONPATH": os.pathsep.join(sys.path)}
    for name in ("MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", "import copriv.pictures.style"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_python_is_told_in_words_too():
    for agreement in ("nope.toml", {"owner": {"name": "a"}}, {}):
        with pytest.raises(CoprivError):
            library.simulate(agreement)
        with pytest.raises(CoprivError):
            library.forecast(agreement)


@pytest.mark.parametrize(
    "options",
    [{"runs": 0}, {"runs": True}, {"seed": -1}, {"workers": 0}, {"workers": -1}],
)
def test_python_refuses_numbers_that_count_nothing(options):
    (name,) = options
    agreement = library.Agreement.of(tomllib.loads(GOOD))
    with pytest.raises(CoprivError, match=f"{name}: must be a whole number"):
        library.simulate(agreement, **options)
    if name != "workers":
        with pytest.raises(CoprivError, match=f"{name}: must be a whole number"):
            library.forecast(agreement, **options)
