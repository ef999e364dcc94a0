"""What watches while the clients run."""
