"""Tables, statistics and figures from records."""
