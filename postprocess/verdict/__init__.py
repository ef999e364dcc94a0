"""Whether a trial's numbers are to be believed."""
