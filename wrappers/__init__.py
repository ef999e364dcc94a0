"""What runs on the workers."""
