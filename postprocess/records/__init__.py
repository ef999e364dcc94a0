"""Reads back what a trial left in its folder."""
