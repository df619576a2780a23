"""Statistics over paired seeds and over benchmarks: small pure functions of plain numbers, each checked against scipy."""
