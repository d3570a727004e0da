"""HTML of the pages: pure. Every inserted text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessionizer.fleet.table_queries import TablePlace

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;max-width:80rem}"
    "pre{background:#8881;padding:.8rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}"
    "h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}:root{color-scheme:light dark}"
)


def render_page(title: str, blocks: Iterable[str]) -> str:
    """Render a whole document. ``blocks`` are HTML already."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{escape(title)}</h1>{''.join(blocks)}</html>"
    )


def paragraph(text: str) -> str:
    """Render a line of prose."""
    return f"<p>{escape(text)}</p>"


def render_preformatted(text: str) -> str:
    """Render a text to read as it is, or to paste."""
    return f"<pre>{escape(text)}</pre>"


def log_page(stream: str, path: str, lines: Sequence[str], note: str | None = None) -> str:
    """Render the last lines of the driver's log, below a ``note`` about the stream."""
    notes = [paragraph(note)] if note else []
    if not lines:
        seen = paragraph(f"Nothing to be read in {path}: it is empty, or on another machine.")
        return render_page(f"{stream}: driver log", [*notes, seen])
    about = paragraph(f"The last {len(lines)} lines of {path}. Reload for newer ones.")
    return render_page(f"{stream}: driver log", [*notes, about, render_preformatted("\n".join(lines))])


def tables_page(stream: str, places: Sequence[TablePlace], note: str | None = None) -> str:
    """Show the place of each table, with queries to paste, below a ``note`` about the stream."""
    return render_page(f"{stream}: tables", [*([paragraph(note)] if note else []), *map(_table, places)])


def _table(place: TablePlace) -> str:
    if not place.may_be_there:
        return f"<h2>{escape(place.name)}</h2>{paragraph(f'{place.path} (not there yet, or not on this machine)')}"
    queries = (("Spark SQL", place.spark_sql), ("DuckDB", place.duckdb), ("Polars", place.polars))
    shown = "".join(f"{paragraph(label)}{render_preformatted(query)}" for label, query in queries)
    version = "" if place.version is None else f", version {place.version}"
    named = "" if place.catalog_name is None else f", {place.catalog_name} in Spark's catalog"
    return f"<h2>{escape(place.name)}</h2>{paragraph(f'{place.path}{version}{named}')}{shown}"


def message_page(stream: str, title: str, message: str) -> str:
    """Render a page that says why there is nothing to show."""
    return render_page(f"{stream}: {title}", [paragraph(message)])
