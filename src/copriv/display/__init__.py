"""What is said to people about a result: sentences and tables as values, made here once and rendered everywhere.

A sentence is a string without markup, a table a `Table` of words, and a `Card` has a title and both. Nothing here prints:

| where           | rendered by                                                                  |
| --------------- | ---------------------------------------------------------------------------- |
| terminal        | `copriv.cli.console.tell`, by rich                                      |
| notebook, print | `Card.html` and `Card.text`; a result names its card's function (`_teller`)  |
| report, page    | templates, from the same strings or from the JSON of the same value          |
| pictures        | titles and words beside the lines                                            |
| JSON            | the results' `to_dict`, whose sentences are these                            |

There is a module for each kind of result, whose functions take the result and return sentences and tables.
"""

from copriv.formatting.cards import Card, Table

__all__ = ["Card", "Table"]
