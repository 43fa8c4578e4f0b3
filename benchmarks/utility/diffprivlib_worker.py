"""Runs inside `.venv-peers`, without copriv: private models of every owner and run, from in.npz, in.json to out.npy."""

import json
import sys
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression

folder = Path(sys.argv[1])
terms = json.loads((folder / "in.json").read_text())
tables = np.load(folder / "in.npz")
B, Y, ε, c = terms["feature_bound"], terms["target_bound"], terms["epsilon"], terms["regularization"]
models = []
for run in range(terms["runs"]):
    row = []
    for i in range(terms["owners"]):
        x, y = (np.repeat(tables[f"{name}{i}"], tables[f"n{i}"], axis=0) for name in "xy")
        if terms["loss"] == "squared":
            model = LinearRegression(
                epsilon=ε, bounds_X=(-B, B), bounds_y=(-Y, Y), fit_intercept=False, random_state=run * 1000 + i
            )
        else:
            model = LogisticRegression(
                epsilon=ε,
                data_norm=float(np.hypot(B, terms["intercept"])),
                C=1 / (len(y) * c),
                fit_intercept=False,
                max_iter=2000,
                random_state=run * 1000 + i,
            )
        row.append(np.ravel(model.fit(x, y).coef_))
    models.append(row)
np.save(folder / "out.npy", np.array(models))
