"""A file without a DAG, whose import fails while a spec file is broken. Airflow then lists it as an import error.

The other streams keep their DAGs, and the driver of the broken one runs on.
"""

from __future__ import annotations

from sessionizer.stream_spec.loading.folder import survey_streams
from sessionizer_airflow.errors import BrokenSpecs
from sessionizer_airflow.project import Project

problems = survey_streams(Project.from_environment().streams).problems
if problems:
    raise BrokenSpecs(problems)
