"""The DNS server of local mode: names of Services and pods, from the API server's own objects.

    wire     pure: bytes <-> questions and answers, by dnspython
    records  which records a name has, out of the caches of Services and EndpointSlices
    server   UDP and TCP

A ClusterIP Service answers with the addresses of its ready pods: from pod to pod nothing stands between. The address
of the Service itself is served by `controllers/addresses.py`.
"""
