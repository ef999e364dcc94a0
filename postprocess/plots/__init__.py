"""Figures of a run, by matplotlib."""
