"""From the text of a manifest to resolved, validated settings."""
