"""From samples to tables, statistics, plots and the report."""
