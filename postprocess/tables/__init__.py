"""The CSVs of a run."""
