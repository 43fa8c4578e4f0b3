"""One command a file, named as it is typed: `copriv owner serve` is `owner_serve.py`. Each has a function `command`.

`options` holds the options that several commands share, and `party` what the commands of a consortium's parties do.
"""
