"""Nothing here is a test: these files need libraries that only ``make mutants`` installs."""

collect_ignore_glob = ["*.py"]
