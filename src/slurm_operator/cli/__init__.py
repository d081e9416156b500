"""The command line: `slurm-operator` and `kubectl slurm`.

In: arguments and files. Out: text for people, JSON and YAML for machines. Imports are kept late, so that every command
starts quickly.
"""
