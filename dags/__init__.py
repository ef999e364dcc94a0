"""Experiments, their expansion into a plan, and the DAG files."""
