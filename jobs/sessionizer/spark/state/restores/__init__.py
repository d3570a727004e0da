"""The way back: plan and execution of a restore or a rollback."""
