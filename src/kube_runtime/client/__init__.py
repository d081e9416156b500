"""Door 1: the only code that talks to the Kubernetes API server.

    kubeconfig ─► transport ─► client ─► cache ─► (reconcilers read)
                                  └────► write ─► (whoever changes something), events; a Lease goes by `lease`

`requests` builds every request and `compare` judges every difference without doing any I/O. `errors` draws the tree
of what can go wrong. Nothing here knows a custom resource of this project or Slurm.
"""
