"""A proof as one HTML page that needs no other file and no host. All data is escaped.

The pages of the newest proofs are kept in the stream's control directory, where Airflow reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

from sessionizer.counts import count_text
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.names import check_identifier
from sessionizer.home.record_file import have_folder
from sessionizer.home.roots import ControlPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.proof.result import NOTHING_COMPARED, JudgedDifference, Proof, ProofVerdict, TableProof

if TYPE_CHECKING:
    from sessionizer.state.proof.comparison import DifferenceSample

_WORDS: Final = {
    ProofVerdict.EQUAL: "Equal: every row is identical.",
    ProofVerdict.EXPLAINED: "Explained: each row that differs is explained by a change of the spec.",
    ProofVerdict.UNEXPLAINED: "Unexplained: some rows differ without a change of the spec that explains them.",
    ProofVerdict.DIED: "Died: the release failed in a recorded batch.",
}

KEPT: Final = 5
"""Number of pages that a stream keeps, the newest."""
_SUFFIX: Final = ".html"
_UNCHANGED: Final = "The spec, the versions and the code that decides are those that wrote the rows."


def proof_page(proof: Proof) -> str:
    """Return the page."""
    template = Template(files("sessionizer.state.proof").joinpath("page.html").read_text(encoding="utf-8"))
    moment = datetime.fromtimestamp(proof.at / 1000, UTC)
    died = f"<p>Batch {proof.died.batch_id}: <code>{escape(proof.died.cause)}</code></p>" if proof.died else ""
    return template.substitute(
        stream=escape(proof.stream),
        verdict=escape(proof.verdict),
        words=escape(NOTHING_COMPARED if proof.compared_nothing else _WORDS[proof.verdict]),
        died=died,
        facts=_facts(
            {
                "lineage": proof.lineage,
                "batches": f"{proof.first} to {proof.last}",
                "events": f"{proof.events:,}",
                "replayed in": f"{proof.replay_seconds:.1f} s",
                "made": f"{moment:%Y-%m-%d %H:%M:%S} UTC",
                "id": proof.id,
            }
        ),
        changes=_list("Changes since the rows were written", (*proof.release, *proof.changes), _UNCHANGED),
        notes=_list("Left out", proof.notes),
        counts="".join(map(_counts, proof.tables)),
        differences="".join(_differences(table) for table in proof.tables if table.differences),
        not_compared=escape("; ".join(f"{table.table}: {', '.join(table.not_compared)}" for table in proof.tables)),
    )


def keep_page(home: StreamHome, proof: Proof) -> ControlPath:
    """Keep the page of the proof, remove old ones, and return its place. Raises OSError, ControlUnreachable."""
    have_folder(_pages(home), "the pages of proofs")
    Store(page_of(home, proof.id)).replace(proof_page(proof).encode(), durable=False)
    for old in list_kept_pages(home)[:-KEPT]:
        Store(page_of(home, old)).remove()
    return page_of(home, proof.id)


def list_kept_pages(home: StreamHome) -> list[str]:
    """Return the ids of the proofs whose pages are kept, the newest last. Raises OSError."""
    return [name.removesuffix(_SUFFIX) for name in record_names(_pages(home), f"*{_SUFFIX}")]


def page_of(home: StreamHome, proof_id: str) -> ControlPath:
    """Return the place of the page of a proof. Raises InvalidSpec for an id that is none."""
    return _pages(home) / f"{check_identifier('proof', proof_id)}{_SUFFIX}"


def _pages(home: StreamHome) -> ControlPath:
    return home.control / "proofs"


def _facts(facts: Mapping[str, str]) -> str:
    return "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())


def _list(title: str, lines: Iterable[str], nothing: str = "") -> str:
    items = "".join(f"<li><code>{escape(line)}</code></li>" for line in lines)
    if not items:
        return f"<p>{escape(nothing)}</p>" if nothing else ""
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>"


def _counts(table: TableProof) -> str:
    bad = ' class="bad"' if table.unexplained else ""
    numbers = "".join(f"<td>{count:,}</td>" for count in (table.old, table.new, table.identical, table.explained))
    return f"<tr><th>{escape(table.table)}</th>{numbers}<td{bad}>{table.unexplained:,}</td></tr>"


def _differences(table: TableProof) -> str:
    parts = "".join(map(_difference, table.differences))
    return f"<h2>{escape(table.table)}</h2>{parts}"


def _difference(judged: JudgedDifference) -> str:
    found = judged.difference
    columns = f": {', '.join(found.columns)}" if found.columns else ""
    explained = judged.explained_by
    why = f"explained by {', '.join(explained)}" if explained else "unexplained"
    mark = "good" if explained else "bad"
    head = f"{count_text(found.rows, 'row')}, {found.kind.replace('_', ' ')}{columns}"
    title = f'<summary>{escape(head)} <span class="{mark}">{escape(why)}</span></summary>'
    rows = "".join(map(_sample, found.samples))
    table = f"<table><tr><th>key</th><th>old</th><th>new</th></tr>{rows}</table>"
    return f'<details{"" if explained else " open"}>{title}<div class="wide">{table}</div></details>'


def _sample(sample: DifferenceSample) -> str:
    cells = "".join(f"<td>{_values(side)}</td>" for side in (sample.key, sample.old, sample.new))
    return f"<tr>{cells}</tr>"


def _values(values: Mapping[str, str | None] | None) -> str:
    if values is None:
        return "<i>no row</i>"
    shown = ((name, "<i>null</i>" if value is None else escape(value)) for name, value in values.items())
    return "<br>".join(f"<b>{escape(name)}</b> {value}" for name, value in shown)
