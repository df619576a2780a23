"""Ways to train the members of an ensemble together; one file each, the same numbers."""
