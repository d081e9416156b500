"""What a pod template may ask for only where the operator allows it, by the names that its flag has for them.

Read by `admission/rules/reach_table.py`, which says which fields need them, and by `cli/flags.py`.
"""

from __future__ import annotations

HOST_PATH, HOST_NAMESPACES, HOST_PORTS = "hostPath", "hostNamespaces", "hostPorts"
PRIVILEGED, CAPABILITIES, SYSCTLS = "privileged", "capabilities", "sysctls"
SERVICE_ACCOUNT = "serviceAccount"
SECURITY_PROFILES, PROBE_HOSTS = "securityProfiles", "probeHosts"
SYSTEM_PRIORITY, EXTERNAL_NAME = "systemPriority", "externalName"
FEATURES = (
    HOST_PATH,
    HOST_NAMESPACES,
    HOST_PORTS,
    PRIVILEGED,
    CAPABILITIES,
    SYSCTLS,
    SERVICE_ACCOUNT,
    SECURITY_PROFILES,
    PROBE_HOSTS,
    SYSTEM_PRIORITY,
    EXTERNAL_NAME,
)
