"""Every night: a small experiment that HTCondor or systemd starts, its record, and who gets a message."""
