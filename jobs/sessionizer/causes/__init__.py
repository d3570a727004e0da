"""Why a driver ended or did not start, whether trying again helps, and what to do."""
