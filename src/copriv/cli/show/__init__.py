"""What people see: words, tables and files. Nothing here parses an option or starts a run.

| file                | what it shows                                                                             |
| ------------------- | ----------------------------------------------------------------------------------------- |
| console             | where words go: results, logs, errors, progress                                           |
| following           | a run, or an owner's work, while it goes on                                               |
| output              | the files that `--out DIR` leaves behind                                                  |
"""
