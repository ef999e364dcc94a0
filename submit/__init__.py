"""The command line, and the side that talks to the pool."""
