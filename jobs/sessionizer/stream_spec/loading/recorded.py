"""A spec that was kept as JSON, made a spec again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.loading.problems import invalid_spec
from sessionizer.stream_spec.loading.yaml_text import YamlDocument

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.stream_spec.decisions import Document


def recorded_spec(document: Document, file: Path) -> StreamSpec:
    """The spec of ``document_of``, kept in ``file``; raises InvalidSpec when this release would refuse it."""
    try:
        return StreamSpec.model_validate(document)
    except ValidationError as error:
        found = invalid_spec(error, YamlDocument(json.dumps(document, ensure_ascii=False), file), file)
        raise InvalidSpec(found.field, found.value, found.allowed, file=file) from None
