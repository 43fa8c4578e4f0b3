"""Runs inside `.venv-opacus`, without copriv: DP-SGD of Opacus for a list of jobs, from in.npz, in.json to out.npz.

A job is one table, one setting, some runs. Each fits a linear model by SGD over Poisson batches; the model is the mean
of the last half of the path, as it is for the DP-SGD beside it.
"""

import json
import sys
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


class Table(Dataset):
    """Rows handed out a batch at a time: one by one, collating would cost more than learning."""

    def __init__(self, x, y):
        self.x, self.y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]

    def __getitems__(self, indices):
        return self.x[indices], self.y[indices]


@lru_cache
def multiplier(epsilon, delta, rate, epochs):
    """Noise over clip, for a record added or removed."""
    return get_noise_multiplier(target_epsilon=epsilon, target_delta=delta, sample_rate=rate, epochs=epochs)


def loss_of(name, prediction, y):
    margin = prediction[:, 0] * y
    if name == "logistic":
        return torch.nn.functional.softplus(-margin).mean()
    return torch.relu(1.0 - margin).mean()


def fit(table, job, seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(table.x.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=job["step"], weight_decay=job["regularization"])
    batch = max(1, round(job["rate"] * len(table)))
    loader = DataLoader(table, batch_size=batch, collate_fn=lambda rows: rows)
    noise = multiplier(job["epsilon"], job["delta"], job["rate"], job["epochs"])
    # A sample that stands for `units` records is made as noisy as they would be.
    noise *= len(table) / job["units"]
    model, optimizer, loader = PrivacyEngine(accountant="prv").make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=job["clip"]
    )
    path = []
    for _ in range(job["epochs"]):
        for x, y in loader:
            optimizer.zero_grad()
            loss_of(job["loss"], model(x), y).backward()
            optimizer.step()
            path.append(model._module.weight.detach().numpy().ravel().copy())
    return np.mean(path[len(path) // 2 :], axis=0)


folder = Path(sys.argv[1])
tables = np.load(folder / "in.npz")
found = {}
for k, job in enumerate(json.loads((folder / "in.json").read_text())):
    times, name = tables[f"n{job['table']}"], job["table"]
    table = Table(np.repeat(tables[f"x{name}"], times, axis=0), np.repeat(tables[f"y{name}"], times))
    found[str(k)] = np.array([fit(table, job, 1000 * k + run) for run in range(job["runs"])])
np.savez(folder / "out.npz", **found)
