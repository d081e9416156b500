"""Door 2, the only code that talks to Slurm, and what is known of Slurm's language.

`client` asks slurmrestd (`requests` says what, `versions` how, `transport` over what, `wire` reads the answer,
`breaker` when not to ask, `shared` for whom else); `model` holds what Slurm said, `policy` what it means for a worker.
`conf*` and `hostlist` know the language of slurm.conf.
"""
