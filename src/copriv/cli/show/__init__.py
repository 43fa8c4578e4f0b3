"""What people see: words, tables and files. Nothing here parses an option or starts a run.

| file                | what it shows                                                                             |
| ------------------- | ----------------------------------------------------------------------------------------- |
| console             | where words go: results, logs, errors, progress                                           |
| forecast            | the answer of a forecast on one screen; its words and tables are `copriv.display`'s       |
| following           | a run, or an owner's work, while it goes on                                               |
| output              | the files that `--out DIR` leaves behind                                                  |
"""
