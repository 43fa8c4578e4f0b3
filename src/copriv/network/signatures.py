"""Who said what: what the learner and the owners put their names to, so that somebody who was not there can check it.

The learner signs each query, with the run's name, the public dictionary's fingerprint and what its record of the run stood
at (`store`). An owner signs each answer together with the query that it answers, so that no answer can be moved to another
query, point, run, dictionary or history. At the end an owner signs how many answers it gave, together with what the
learner's record then stood at, and the learner signs the model's file. Both sign the very bytes that are sent, but for the
signature.

`dictionary` is the fingerprint of the public dictionary, "" without one.
"""

import hashlib
from dataclasses import replace

from copriv.network.keys import Keys
from copriv.network.messages import Closing, encode
from copriv.protocol import Answer, Query


def query_content(run: str, query: Query, dictionary: str = "") -> bytes:
    """What the learner signs of a query."""
    about = f"copriv query\0{run}\0{dictionary}\0".encode()
    return about + encode(replace(query, signature=""))


def answer_content(run: str, query: Query, answer: Answer, dictionary: str = "") -> bytes:
    """What an owner signs of an answer."""
    asked = hashlib.sha256(query_content(run, query, dictionary)).digest()
    return b"copriv answer\0" + asked + encode(replace(answer, signature=""))


def closing_content(run: str, owner: str, fingerprint: str, closing: Closing) -> bytes:
    """What an owner signs of its count at the end of a run."""
    whose = "\0".join(("copriv closing", run, owner, fingerprint, ""))
    return whose.encode() + encode(replace(closing, signature=""))


def model_content(run: str, head: str, model: str) -> bytes:
    """What the learner signs of a model's file: its digest (`Model.digest`), after the line with the hash `head`."""
    return f"copriv model\0{run}\0{head}\0{model}".encode()


def signed_query(keys: Keys | None, run: str, query: Query, dictionary: str = "") -> Query:
    """The query with the learner's signature; without keys, as it is."""
    return query if keys is None else replace(query, signature=keys.sign(query_content(run, query, dictionary)))


def signed_answer(keys: Keys | None, run: str, query: Query, answer: Answer, dictionary: str = "") -> Answer:
    """The answer with the owner's signature; without keys, as it is."""
    if keys is None:
        return answer
    return replace(answer, signature=keys.sign(answer_content(run, query, answer, dictionary)))
