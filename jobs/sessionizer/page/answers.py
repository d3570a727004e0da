"""Answers of the page: JSON, errors and static files, with the headers that keep foreign scripts out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi.responses import FileResponse, JSONResponse

from sessionizer.redaction import redact

if TYPE_CHECKING:
    from fastapi import Request, Response

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ASSETS: Final = frozenset(file.name for file in STATIC.iterdir() if file.suffix in {".css", ".js", ".svg"})
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def answer_json(content: Any, status: int = 200) -> Response:  # noqa: ANN401  any JSON
    """Return the answer."""
    return JSONResponse(content, status_code=status, headers=HEADERS)


def answer_error(_request: Request, error: Exception) -> Response:
    """Tell the browser of an error of ours, or of a place that cannot be read, in the form that the page shows."""
    return answer_json({"error": type(error).__name__, "message": redact(str(error))}, 503)


def answer_file(name: str) -> Response:
    """Return a file of the page."""
    return FileResponse(STATIC / name, media_type=TYPES[Path(name).suffix], headers=HEADERS)
