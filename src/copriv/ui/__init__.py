"""Pages on this machine, for people who decide: should we join, write the agreement, watch a run, read a ledger.

| file            | what it does                                                                       |
| --------------- | ---------------------------------------------------------------------------------- |
| `auth`          | who may ask: loopback names, a token, one origin; the headers that lock pages down |
| `app`           | which address shows what                                                           |
| `views`         | what the pages show, made from the public API: nothing else here knows a forecast  |
| `forecaster`    | full forecasts, in a process beside the server, the newest question first          |
| `agreement_form` | an agreement while it is written                                                   |
| `reading`       | ledgers, runs and models that are opened: the verdict of the command line, and report |
| `live`          | a run while it goes on                                                             |
| `gallery`       | the papers' figures, and transients at any ε                                       |
| `uploads`       | public rows that a person gives as a file                                          |
| `server`        | the port, the address with its token, the browser                                  |

Needs the extra `copriv[ui]`. Nothing comes from another machine and nothing goes to one.
"""
