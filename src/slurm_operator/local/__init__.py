"""One machine as a Kubernetes: the embedded API server, its few controllers and the node agent.

For trying the operator, for tests and for CI; the operator that runs in it is the same program with the same client.
"""
