"""Models; one file each."""
