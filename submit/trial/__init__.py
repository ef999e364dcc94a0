"""All that happens to one trial on the access point: its turn, its gate, its stop, its end."""
