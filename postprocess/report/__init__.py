"""The page that tells what came out of a run, or of several."""
