"""The node agent of local mode: runs the pods that are bound to this machine's virtual nodes, as a kubelet does.

    agent     registers the nodes, renews their Leases, gives every bound pod a worker
    pod       one pod: sandbox, init containers, sidecars, containers, termination
    container one container: start, probes, hooks, restarts with backoff
    volumes   what is mounted into containers; refreshed by one atomic link swap
    network   the bridge and the network namespace of each pod
    runtime   conmon and runc
    status    pure: records -> pod status
    access    logs, exec and port-forward on a unix socket; `proxy` is the API server's end of it
    cleanup   takes everything away again

State lives in the data folder, so that a killed agent finds its running containers again and leaves them alone.
"""
