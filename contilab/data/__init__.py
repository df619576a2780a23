"""Data sets and the streams of tasks made of them; one file per benchmark."""
