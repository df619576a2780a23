"""Published numbers, one table per source, and what compares a study with them."""
