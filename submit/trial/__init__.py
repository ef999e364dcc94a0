"""All that happens to one trial on the access point: its lock, its gate, its stop, its end."""
