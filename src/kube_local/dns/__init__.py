"""The DNS server of local mode: names of Services and pods, from the API server's own objects.

    wire     pure: bytes <-> questions and answers, by dnspython
    records  which records a name has, out of the caches of Services and EndpointSlices
    server   UDP and TCP

The name of a ClusterIP Service resolves to the addresses of its ready pods, so pods connect to each other directly. The
address of the Service itself is served by `controllers/addresses.py`.
"""
