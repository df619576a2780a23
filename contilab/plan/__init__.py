"""From a study to groups in the store."""
