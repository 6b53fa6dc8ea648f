"""Settings of runs, one TOML file each: the papers' tables, and small ones that end in minutes."""
