"""The files of all parties of a consortium (`copriv init --network`), and each party's records under an agreement.

    consortium/
      agreement.toml     for all: every "auto" and "proved" about the data replaced by its number
      dictionary.json    for all: the public dictionary, where the agreement has components
      authority/         for the coordinator only: its key can certify any party
      learner/           the learner's certificate, and the public rows
      bank-1/ …          each owner's certificate and a policy to complete; nothing private

The key of a party that made it itself (`copriv owner keys`) and sent a signing request is certified, and named in the
agreement. For other parties a secret key is made here, in their folders: whoever makes it can act in their names.

The dictionary and the bound on features come from public rows: a file that the coordinator gives or data.public names, or
the last rows of a published table. No table that may hold private rows is read.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from copriv.agreement import Agreement, OwnerTerms
from copriv.agreement.data_terms import as_agreed, data_specification, own_pieces, own_table, schema_of
from copriv.data import datasets
from copriv.data.consortium import prepare_owner
from copriv.data.dictionary import PublicDictionary
from copriv.data.public import Sample, load_sample, strata_of
from copriv.data.schema import Schema
from copriv.data.specification import open_dataset
from copriv.data.sql import is_sql
from copriv.data.stream import StreamedRecords, made_up, most_memory
from copriv.data.tables import column_names, write_parquet
from copriv.errors import AgreementError, DataError, InvalidInput
from copriv.losses import by_name
from copriv.model.fitness import FeasibleSet, gradient_bound_over
from copriv.model.records import BLOCK, Records
from copriv.network.keys import (
    AUTHORITY,
    CERTIFICATE,
    Certified,
    KeysRefused,
    Role,
    certify,
    issue,
    key_fingerprint,
    make_authority,
    read_request,
    renew_authority,
)
from copriv.types import Loss

LEARNER = "learner"
"""The learner's name on its certificate, and its folder's."""
AGREEMENT, DICTIONARY, POLICY, PUBLIC = "agreement.toml", "dictionary.json", "policy.toml", "public.parquet"


@dataclass(frozen=True)
class Consortium:
    """The files that `make_consortium` wrote."""

    agreement: Agreement
    dictionary: PublicDictionary | None
    files: tuple[Path, ...]


def make_consortium(
    agreement: Agreement,
    folder: str | Path,
    public: object = None,
    days: int = 365,
    requests: Sequence[str | Path] = (),
) -> Consortium:
    """Write the files of a consortium.

    public: a table of public rows; when None, those that data.public names, or the last rows of a published data set.
    days: validity of the certificates. requests: signing requests of parties that made their keys themselves
    (`copriv owner keys`); the agreement then names these keys, and the learner's.
    Raises AgreementError for terms that still have to be planned, InvalidInput for a folder that is not empty, KeysRefused
    for a file that is no request of a party.
    """
    agreement.phases_in_numbers()  # a pilot's terms are fixed before it
    folder = Path(folder)
    names = [_folder_name(owner) for owner in agreement.owner_names]
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"{folder}: is not empty; keys are never overwritten: name a new folder")
    others = (LEARNER, "authority", AGREEMENT, DICTIONARY)
    # Some disks ignore case, and how letters with accents are encoded.
    normal = [unicodedata.normalize("NFC", name).casefold() for name in (*names, *others)]
    if len({unicodedata.normalize("NFC", name) for name in normal}) < len(normal):
        raise AgreementError(
            f"owner.name: two names, or a name and one of {', '.join(others)}, give one folder (on some disks capitals do "
            "not count); change one"
        )
    own_keys, specification = _requested_keys(agreement, requests), data_specification(agreement)
    if public is not None:
        specification = replace(specification, public=public)
    sample, loss, dictionary = None, by_name(agreement.model.loss, agreement.model.threshold), None
    if agreement.data.declared_only and public is not None:
        raise InvalidInput("public: data.public_rows = 0 says that no rows are public; leave one of the two out")
    if not agreement.data.declared_only:
        sample = load_sample(specification, strata=agreement.data.strata)
        loss.check_target(sample.records.target)
        dictionary = sample.preparation.dictionary
    agreed = _with_numbers(agreement, sample, loss)
    authority = folder / "authority"

    def make_party(name: str, place: str, role: Role) -> None:
        if name in own_keys:
            certify(authority, folder / place, name, own_keys[name], role, days)
        else:
            issue(authority, folder / place, name, role, days)

    folder.mkdir(parents=True, exist_ok=True)
    make_authority(authority, agreement.agreement.name, days)
    make_party(LEARNER, LEARNER, "learner")
    if sample is not None:
        write_parquet(sample.table.to_arrow(), folder / LEARNER / PUBLIC)
        if (asked := agreed.agreement.pilot_terms) is not None:
            signed = asked.model_copy(update={"public": digest_of(folder / LEARNER / PUBLIC)})
            agreed = agreed.replace(agreement={"pilot_terms": signed.model_dump(exclude_none=True)})
    learner = Certified.by(
        (folder / LEARNER / AUTHORITY).read_bytes(), (folder / LEARNER / CERTIFICATE).read_text(encoding="ascii")
    )
    if own_keys:
        named = {name: {"key": key_fingerprint(key)} for name, key in own_keys.items()}
        owners: list[dict[str, Any]] = []
        for table in agreed.owner_tables:
            each = table.each() if named.keys() & set(table.names()) else [table]
            owners += [one.model_dump(exclude_none=True) | named.get(one.name, {}) for one in each]
        agreed = agreed.replace(agreement={"learner_key": learner.key_fingerprint}, owner=owners)
    texts = {folder / AGREEMENT: agreed.to_toml()}
    if dictionary is not None:
        texts[folder / DICTIONARY] = dictionary.to_json() + "\n"
    for owner, name in zip(agreed.owner, names, strict=True):
        make_party(owner.name, name, "owner")
        texts[folder / name / POLICY] = _policy(agreed, owner, learner.fingerprint)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return Consortium(agreed, dictionary, (*texts, *(folder / name for name in ("authority", LEARNER, *names))))


def renew_certificates(folder: str | Path, days: int = 365) -> dict[str, str]:
    """Certify the authority and every party of a consortium's folder anew; returns the certificates' SHA-256, by party.

    All keep their keys: an agreement that names them stays as it is, and old and new certificates are valid at once, each under
    the old `ca.pem` and the new, until the old ones end. Raises KeysRefused where the folder has no authority, or where a
    party's certificate is of another one.
    """
    folder = Path(folder)
    authority = folder / "authority"

    def certified(party: Path) -> Certified:
        return Certified.by((authority / AUTHORITY).read_bytes(), (party / CERTIFICATE).read_text(encoding="ascii"))

    held = {}
    if (authority / AUTHORITY).exists():  # all are checked before a file is written
        held = {path.parent: certified(path.parent) for path in sorted(folder.glob(f"*/{CERTIFICATE}"))}
    renew_authority(authority, days)
    for party, old in held.items():
        certify(authority, party, old.name, old.key, old.role, days)
    return {old.name: certified(party).fingerprint for party, old in held.items()}


def _requested_keys(agreement: Agreement, requests: Sequence[str | Path]) -> dict[str, EllipticCurvePublicKey]:
    """The keys in the signing requests, by party. Raises KeysRefused where one is not as agreed."""
    keys: dict[str, EllipticCurvePublicKey] = {}
    for path in requests:
        name, key = read_request(path)
        if name not in (*agreement.owner_names, LEARNER):
            raise KeysRefused(f"{path}: asks for {name!r}, who is no owner in the agreement; make it with --name")
        if name in keys:
            raise KeysRefused(f"{path}: is a second request of {name!r}; ask the owner which key is its own")
        keys[name] = key
    for name, agreed in agreement.owner_keys.items():
        if name not in keys or key_fingerprint(keys[name]) != agreed:
            raise KeysRefused(
                f"owner.key: the agreement names a key of {name!r}; give the request that was made with it"
            )
    return keys


def share_out(agreement: Agreement, folder: str | Path) -> tuple[Path, ...]:
    """Write each owner's slice of a built-in table as a file `<owner>/data.parquet`, to try things out.

    The slices are those of a simulation. Raises DataError for a data set that cannot be split by position alone.
    """
    source = open_dataset(agreement.data.named, path=agreement.data.path)
    first = agreement.owner[0]
    private = len(source.table) - agreement.data.public_count
    sizes = [owner.records for owner in agreement.owner]
    if source.shuffled or source.group is not None or first.unit is not None or sum(sizes) > private:
        raise DataError(
            f"data.dataset: {agreement.data.dataset!r} cannot be dealt out to {len(sizes)} owners of {sum(sizes)} "
            f"records in slices of its {private} private rows; use lending-embedded, and fewer records"
        )
    paths, begin = [], 0
    for owner in agreement.owner:
        path = Path(folder) / _folder_name(owner.name) / "data.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_parquet(source.table[begin : begin + owner.records].to_arrow(), path)
        paths.append(path)
        begin += owner.records
    return tuple(paths)


def load_dictionary(agreement: Agreement, beside: str | Path) -> PublicDictionary | None:
    """The dictionary that an agreement names, by a path relative to the agreement's file. None where it names none."""
    if not agreement.data.mapped:
        return None
    if agreement.data.dictionary is None:
        raise AgreementError(
            "data.dictionary: over the network all parties must have one dictionary file; make it with "
            "copriv init --network, or set components = 0 and no fourier_features"
        )
    path = Path(beside).parent / agreement.data.dictionary
    try:
        return as_agreed(agreement, PublicDictionary.from_json(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise AgreementError(f"data.dictionary: {path} cannot be read ({error.strerror}); copy it there") from None


def n_parameters(agreement: Agreement, dictionary: PublicDictionary | None) -> int:
    """p, from the agreement and its dictionary. Raises AgreementError where they do not determine it."""
    if dictionary is not None:
        return dictionary.components + int(agreement.model.intercept)
    schema = schema_of(agreement, None)
    if schema is None:
        raise AgreementError("data.features: without components, the agreement must list the features")
    return len(schema.feature_names) + int(agreement.model.intercept)


def owner_records(
    agreement: Agreement, name: str, source: object, dictionary: PublicDictionary | None, query: str = ""
) -> tuple[Records, tuple[str, ...]]:
    """An owner's table as records under the agreement, and the columns that were used.

    source: the path of a file, a frame, or the address of a data base with its query. Raises DataError, naming column and row.
    """
    terms, bound = agreement.terms_of(name), _bound(agreement)
    if (found := own_pieces(agreement, source, terms.unit, query)) is not None:
        return _in_pieces(agreement, name, dictionary, *found).in_memory(), found[1].names
    table, schema = own_table(agreement, source, terms.unit, query)
    records = prepare_owner(
        table,
        schema,
        dictionary,
        bound,
        records=terms.records,
        intercept=agreement.model.intercept,
        unit_records=terms.unit_records,
    )
    return records, schema.names


def memory_needed(agreement: Agreement, name: str, n_parameters: int) -> int:
    """Approximate largest memory of this process with an owner's records in it, in bytes.

    It is the most that the process has taken so far, 200 MB for a few pieces of the table and OpenDP, and the records: their
    features, target, weight and two lengths, 8 bytes each, and a byte for each feature while they are checked. Where the table
    cannot be read in pieces, it is the table and its encoded columns, too.
    """
    terms, schema = agreement.terms_of(name), schema_of(agreement, None)
    rows, each = terms.records * (terms.unit_records or 1), 9 * n_parameters + 32
    if terms.unit is not None or schema is None:
        each += 8 * (3 * n_parameters + 2 * len(schema.feature_names if schema else ()))
    return most_memory() + 200 * 10**6 + rows * each


def streamed_records(
    agreement: Agreement, name: str, source: str, query: str, dictionary: PublicDictionary | None
) -> tuple[StreamedRecords, tuple[str, ...]]:
    """As `owner_records`, for a table that is read in blocks for every answer and never held in memory as a whole.

    source: the path of a file, or the address of a data base with its query. Raises AgreementError where columns are not
    declared, or persons are the units (whose rows may be in several blocks).
    """
    found = own_pieces(agreement, source, agreement.terms_of(name).unit, query, BLOCK)
    if found is None:
        raise AgreementError(
            'data.dataset: only a table of declared columns (dataset = "table") in which each record is a unit can be '
            "read in blocks; raise the memory limit (--memory)"
        )
    records = _in_pieces(agreement, name, dictionary, *found)
    if not is_sql(source):
        records = replace(records, made_up=partial(made_up, records, Path(source), found[1]))
    return records, found[1].names


def _in_pieces(
    agreement: Agreement,
    name: str,
    dictionary: PublicDictionary | None,
    pieces: Callable[[], Iterator[pa.Table]],
    schema: Schema,
) -> StreamedRecords:
    bound = _bound(agreement)

    def prepare(table: Any) -> Records:
        return prepare_owner(table, schema, dictionary, bound, intercept=agreement.model.intercept)

    return StreamedRecords(pieces, prepare, agreement.terms_of(name).records, n_parameters(agreement, dictionary))


def _bound(agreement: Agreement) -> float | None:
    bound = agreement.data.feature_bound
    if bound == "auto":
        raise AgreementError(
            'data.feature_bound: still "auto"; make the files with copriv init --network, or give a number'
        )
    return bound or None


def public_records(agreement: Agreement, source: object, dictionary: PublicDictionary | None) -> Records:
    """The learner's public rows as records, before the bound on features and the intercept are applied.

    source: the path of a file, or a frame. Raises DataError, naming column and row.
    """
    terms = agreement.owner[0]
    unit = terms.unit
    if unit is not None and unit not in column_names(source):
        unit = None
    table, schema = own_table(agreement, source, unit)
    return prepare_owner(table, replace(schema, unit=unit), dictionary, None, unit_records=terms.unit_records)


def public_file(
    agreement: Agreement, path: Path, dictionary: PublicDictionary | None
) -> tuple[Records, tuple[str, ...] | None, str]:
    """The rows of a file of public rows as records, their strata, and the file's SHA-256.

    Raises DataError as `public_records` does, and where the file changes while it is read.
    """
    digest = None
    with suppress(OSError):  # a file that cannot be read is refused below, in words
        digest = digest_of(path)
    rows, strata = public_records(agreement, path, dictionary), public_strata(agreement, path)
    if (after := digest_of(path)) != digest:
        raise DataError(f"{path.name}: was changed while it was read; give a file that stays as it is")
    return rows, strata, after


def digest_of(public: Path) -> str:
    """SHA-256 of a file of public rows, by which a run, and an agreement with a pilot, name them."""
    return hashlib.sha256(public.read_bytes()).hexdigest()


def public_strata(agreement: Agreement, source: object) -> tuple[str, ...] | None:
    """The stratum of each public row; None where the agreement names no column of strata."""
    if agreement.data.strata is None:
        return None
    return strata_of(source, agreement.data.strata)


def _with_numbers(agreement: Agreement, sample: Sample | None, loss: Loss) -> Agreement:
    """The agreement with every "auto" and "proved" about the data replaced by its number. sample: None: no rows are public."""
    model, schema = agreement.model, schema_of(agreement, None)
    bound: Any = agreement.data.feature_bound or None
    if sample is not None:
        bound, schema = sample.preparation.feature_bound, sample.schema
    for field, value, otherwise in (
        ("agreement.rule", agreement.agreement.rule, ""),
        ("agreement.step", agreement.agreement.step, ""),
        ("model.gradient_bound", model.gradient_bound, " or give a number"),
    ):
        if field == "agreement.step" and agreement.one_answer:
            continue  # where owners answer once, "auto" is a whole step
        if value == "auto" and field.partition(".")[2] not in (agreement.agreement.ranges or {}):
            raise AgreementError(f'{field}: still "auto"; plan it first (copriv forecast --out DIR){otherwise}')
    Ξ: Any = model.gradient_bound
    if Ξ == "proved":
        if bound is None or schema is None:
            raise AgreementError('model.gradient_bound: "proved" needs a bound on the features (data.feature_bound)')
        widest = bound + float(model.intercept)
        Ξ = gradient_bound_over(loss, widest, schema.target_bound, FeasibleSet(model.theta_max))
    data: dict[str, Any] = {
        "feature_bound": bound or 0.0,
        "dataset": datasets.named(agreement.data.named).read_from,
        "public_rows": 0 if sample is None else len(sample.table),
    }
    if sample is not None and sample.preparation.dictionary is not None:
        data["dictionary"] = DICTIONARY
    document = agreement.to_dict()
    document["data"] = {key: value for key, value in document["data"].items() if key not in ("path", "public")} | data
    document["model"]["gradient_bound"] = Ξ
    return Agreement.of(document)


def _folder_name(owner: str) -> str:
    return re.sub(r"[^\w.-]+", "-", owner).strip(".-") or "owner"


def _policy(agreement: Agreement, owner: OwnerTerms, learner: str) -> str:
    ε, δ = owner.epsilon, owner.delta
    return f"""# What this owner allows, whatever was agreed. docs/how-to/run-a-consortium.md says what each key means.
[policy]
learner = "{LEARNER}"
certificates = ["{learner}"]
agreements = ["{agreement.fingerprint}"]
losses = ["{agreement.model.loss}"]
mechanisms = {json.dumps([phase.agreement.mechanism for phase in agreement.phases])}
highest_epsilon = {ε!r}
lifetime_epsilon = {ε!r}
highest_delta = {δ!r}
lifetime_delta = {δ!r}
"""
