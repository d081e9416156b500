"""Images without a registry: a Debian root file system with Slurm, and rules that map image names to it.

`build` makes one root file system per Slurm version and keeps it in a cache; `rules` says, for an image name out of a
manifest, which of them to use and what to run in it. Called by the node agent and by `slurm-operator local`.
"""
