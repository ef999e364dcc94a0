"""An emulated Tier-2/Tier-3 pair of real daemons on one Linux machine."""
