"""What is recorded of a group besides its exams, without changing its training by a bit."""
