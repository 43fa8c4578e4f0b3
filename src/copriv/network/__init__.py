"""Owners and learner as processes of their own: the same owner, rules and agreement, with a wire between them.

    owner's process                                     learner's process
    agent ── Owner ── ledger ── records                 learner ── conductor ── rule
      └── transport ───────── messages ────────────────── transport     └── store

| file           | what it holds                                                                                  |
| -------------- | ---------------------------------------------------------------------------------------------- |
| messages       | the few things that can be said, and their bytes                                               |
| transport      | the seam: a link that carries frames; in memory, for tests and demonstrations                  |
| grpc_transport | the same over gRPC with mutual TLS; owners dial out, the learner listens                       |
| keys           | a small certificate authority, and reasons why a certificate is refused                        |
| policy         | what an owner's own side allows, whatever was agreed                                           |
| signatures     | what the learner and the owners put their names to                                             |
| agent          | the owner's process                                                                            |
| clock          | when an owner says that it is ready                                                            |
| allowance      | how fast a peer may go                                                                         |
| conductor      | what to do with an answer, a refusal, a silence: no I/O, no clock                              |
| run            | where a run stands after its lines: the fold that learner, record and verify share             |
| turns          | whom to ask now                                                                                |
| trajectory     | how the answers move the model                                                                 |
| store          | every event of a run, a chain of hashes, durable before the next query leaves                  |
| record         | how a run went, from its lines alone: what stands in a model's file                            |
| verify         | does a run's file lead to its model, value by value, and did everybody sign?                   |
| learner        | the learner's process                                                                          |
| setup          | the files that every party of a consortium needs                                               |
| model          | what a run gives: the model, and predictions from it                                           |
| flower_app     | where the parties run Flower already: one of its messages starts an owner's session            |

Nothing is pickled, and no code is ever received.
"""
