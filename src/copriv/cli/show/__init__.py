"""What people see: words, tables and files. Nothing here parses an option or starts a run.

| file                | what it shows                                                                             |
| ------------------- | ----------------------------------------------------------------------------------------- |
| console             | where words go: results, logs, errors, progress                                           |
| words               | numbers said in words                                                                     |
| forecast_tables     | a forecast in words and tables                                                            |
| simulation_tables   | a simulation in words and one table                                                       |
| ledger              | what an owner has spent                                                                   |
| run                 | a run while it goes on, and beside its forecast once it is over                           |
| output              | the files that `--out DIR` leaves behind                                                  |
"""
