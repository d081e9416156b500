"""What a Kubernetes operator needs from Kubernetes: a typed client, caches, a writer, and the loop around reconciles.

README.md has the map. Nothing here knows Slurm, or a custom resource of any program.
"""
