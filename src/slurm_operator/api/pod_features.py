"""What a pod template may ask for only where the operator allows it, by the names that its flag has for them.

Read by `admission/rules/reach.py`, which finds them, and by `cli/flags.py`.
"""

from __future__ import annotations

HOST_PATH, HOST_NAMESPACES, HOST_PORTS = "hostPath", "hostNamespaces", "hostPorts"
PRIVILEGED, CAPABILITIES, SYSCTLS = "privileged", "capabilities", "sysctls"
SERVICE_ACCOUNT = "serviceAccount"
FEATURES = (HOST_PATH, HOST_NAMESPACES, HOST_PORTS, PRIVILEGED, CAPABILITIES, SYSCTLS, SERVICE_ACCOUNT)
