"""`python -m slurm_operator`: the command line."""

from slurm_operator.cli.main import main

if __name__ == "__main__":
    main()
