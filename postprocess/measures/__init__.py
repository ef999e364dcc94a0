"""Numbers of a trial, from what its hosts and clients recorded."""
