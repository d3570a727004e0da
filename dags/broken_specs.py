"""Makes no DAG: fails to import while a spec file is broken, so that Airflow lists the file among its import errors.

The other streams keep their DAGs, and the broken one's driver runs on.
"""

from __future__ import annotations

from sessionizer.stream_spec.loading.folder import survey_streams
from sessionizer_airflow.errors import BrokenSpecs
from sessionizer_airflow.project import Project

problems = survey_streams(Project.from_environment().streams).problems
if problems:
    raise BrokenSpecs(problems)
