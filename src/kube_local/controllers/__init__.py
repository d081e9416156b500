"""The rest of a control plane for one machine, on the embedded API server (or on a real one).

    decide/       pure: what is there -> what is to be done, one module per kind
    world         one cache per kind, the writer, events
    stateful_set  replica_set  deployment  endpoints  disruption  volumes  scheduler  lifecycle
    run           puts them together, in one process

They use the operator's own client, caches, queue and loop. Owner garbage collection, namespaces and the finalizers
that protect claims and volumes in use are the API server's own.
"""
