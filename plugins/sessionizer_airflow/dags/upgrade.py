"""The DAG for all streams that upgrades one: from its form, or in a maintenance window. Wiring only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import DAG

from sessionizer.state.commands.upgrade import Upgrade
from sessionizer_airflow.dags.operate import add_approved_change, form_dag_options, read_form
from sessionizer_airflow.operating.form import form_of

if TYPE_CHECKING:
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Upgrades a stream to its changed spec and to the installed release.

Choose a stream in the form. The plan names each difference with its verdict, changes nothing, and waits under
**Required Actions** until a user approves or rejects it. Without an answer it is rejected after a while. If it is
approved, exactly that plan runs, and the stream runs again. If it is rejected, the stream is not changed.

- **Accept** takes the names of differences by which open sessions lack something, one per line. A first plan names
  them.

`sessionizer.maintenance` starts runs of this DAG in the maintenance windows of the specs (`upgrades.window`). There the
approval waits until the window ends at the latest. With `upgrades.policy: apply` no user is asked, as long as open
sessions lack nothing. What was begun is finished, also after the end of the window.
"""


def upgrade_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``."""
    with DAG(
        **form_dag_options(Upgrade.name, DOCUMENTATION, wiring, platform),
        schedule=None,
        params=form_of(wiring.stream_names, only=Upgrade.name),
        allowed_run_types=["manual", "operator_triggered"],  # type: ignore[list-item]  # Airflow takes the names
    ) as dag:
        add_approved_change(wiring, read_form(wiring, {Upgrade.name: "plan"}))
    return dag
