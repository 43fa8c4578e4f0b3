"""Owners and learner as separate processes that communicate over a network, with the owner, rules and agreement of copriv.

    owner's process                                     learner's process
    agent ── Owner ── ledger ── records                 learner ── run_state ── rule
      └── transport ───────── messages ────────────────── transport     └── store

| file           | what it holds                                                                                  |
| -------------- | ---------------------------------------------------------------------------------------------- |
| messages       | the messages, their encoding, and the contents that are signed                                 |
| transport      | protocols of links, an owner's Poisson clock, and the learner's rate limit                     |
| grpc_transport | links between machines, with mutual TLS; owners dial, the learner listens                      |
| keys           | a small certificate authority, and the reasons why a certificate is refused                    |
| policy         | an owner's limits on the agreements that it answers under                                      |
| agent          | the owner's process                                                                            |
| learner        | the learner's process                                                                          |
| masked_sum     | a sum of answers that nobody sees one by one, an owner's side; `sum_messages`: over the network |
| sum_attempt    | the learner's side of one attempt at such a sum                                                |
| run_state      | the learner's state machine, without I/O and clock; `turns`: which participants to ask         |
| store          | the lines of a run, a chain of hashes, on the disk before the next query is sent               |
| run            | the state of a run and its model after its lines, for the learner and for `verify`             |
| verify         | verification of a run's file against its model and signatures, line by line in `verify_lines`  |
| model          | the model of a run and its predictions; `exports` and `portable`: for other tools              |
| own_model      | an owner's own model from a run's file                                                         |
| setup          | the files of all parties of a consortium, and each party's records                             |
| flower_app     | apps for parties that run Flower: one of its messages starts an owner's session                |

Nothing is pickled, and no code is received.
"""
