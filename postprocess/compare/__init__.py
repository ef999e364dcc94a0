"""Runs beside runs: what changed from one to another, what differs in how they were made, and what to make of it."""
