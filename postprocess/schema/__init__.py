"""The columns of all tables, the rows that have them, and reading them back: below all that fills them."""
