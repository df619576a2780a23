"""What a run, a group and a study are, and their content addresses."""
