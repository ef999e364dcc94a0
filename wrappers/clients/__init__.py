"""The clients, one file each: what it declares and what it does."""
