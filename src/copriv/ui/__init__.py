"""Pages on this machine, for people who decide: should we join, write the agreement, watch a run, read a ledger.

| file             | what it does                                                                          |
| ---------------- | ------------------------------------------------------------------------------------- |
| `app`            | routes of the pages for planning and reading; uploaded files of public rows           |
| `shell`          | templates, texts, JSON and event streams, for all applications                        |
| `views`          | forecasts for the page "Should we join?": made in a process beside the server, and as numbers |
| `agreement_form` | the form of an agreement                                                              |
| `reading`        | verification of ledgers, runs and models in files, and the report                     |
| `live`           | pages of a learner and of an owner during a run                                       |
| `gallery`        | the papers' figures, and transients at a given ε                                      |
| `server`         | access control (a token, one origin), the port, the address, the browser              |

Needs the extra `copriv[ui]`. The pages exchange nothing with other machines.
"""
