"""Owners and learner as processes of their own: the same owner, rules and agreement, with a wire between them.

    owner's process                                     learner's process
    agent ── Owner ── ledger ── records                 learner ── run_state ── rule
      └── transport ───────── messages ────────────────── transport     └── store

| file           | what it holds                                                                                  |
| -------------- | ---------------------------------------------------------------------------------------------- |
| messages       | the few things that can be said, their bytes, and what is signed of them                       |
| transport      | the seam: a link that carries frames, and how fast parties speak on it                         |
| grpc_transport | the links between machines, with mutual TLS; owners dial out, the learner listens              |
| keys           | a small certificate authority, and reasons why a certificate is refused                        |
| policy         | what an owner's own side allows, whatever was agreed                                           |
| agent          | the owner's process                                                                            |
| learner        | the learner's process                                                                          |
| run_state      | what it does with an answer, a refusal, a silence: no I/O, no clock; `turns`: whom to ask now  |
| store          | every line of a run, a chain of hashes, durable before the next query leaves                   |
| run            | where a run and its model stand after its lines: the fold that learner and verify share        |
| verify         | does a run's file lead to its model, and did everybody sign? Line by line: `verify_lines`      |
| model          | what a run gives: the model, and predictions from it; `exports`: for other tools               |
| own_model      | what an owner learns for itself from a run's file                                              |
| setup          | the files that every party of a consortium needs                                               |
| flower_app     | where the parties run Flower already: one of its messages starts an owner's session            |

Nothing is pickled, and no code is ever received.
"""
