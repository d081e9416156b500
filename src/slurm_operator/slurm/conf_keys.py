"""The keys of Slurm's configuration files for 24.11, 25.05, 25.11 and 26.05, each with the kind of its value.

In: nothing. Out: FILES, the rules of each file that can be linted. `conf_lint` reads it; nobody else should.
A name may carry a bound: `MetricsType>=25.11`, `FrontendName<=24.11`. The keys of 24.11.5 and 26.05.5 are those
of Slurm's own parser tables; 25.05 and 25.11 lie between them by the changelogs, and where a changelog is silent
the bound is the generous one, so that a key is never called unknown when Slurm takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from slurm_operator.slurm.conf_options import OPTION_LISTS
from slurm_operator.slurm.conf_values import (
    AbsolutePath,
    Choices,
    Decimal,
    Duration,
    FastSchedule,
    Files,
    GresNames,
    Hosts,
    Number,
    Pattern,
    Plugin,
    Ports,
    Seconds,
    Span,
    Text,
    ValueType,
    Version,
    YesNo,
    spans,
)

NEWEST: Final[Version] = (26, 5)

TEXT: Final = Text()
_YES_NO: Final = YesNo()
_U16: Final = Number(16)
_U32: Final = Number(32)
_U64: Final = Number(64)
_PORT: Final = Number(16, low=1)
_PATH: Final = AbsolutePath()
_HOSTS: Final = Hosts()
_TIME: Final = Duration()
_SECONDS: Final = Seconds()


class Key(msgspec.Struct, frozen=True):
    """A key: its spelling, since and until when, the kind of its value, whether it may be repeated."""

    span: Span
    kind: ValueType
    repeats: bool = False


Table = Mapping[str, Key]


class FileRules(msgspec.Struct, frozen=True):
    """Keys of a file by lower-case name, and the attributes of its record lines."""

    keys: Table
    records: Mapping[str, Table] = {}


def _table(*groups: tuple[ValueType, str], repeats: str = "") -> dict[str, Key]:
    again = frozenset(repeats.lower().split())
    keys = (Key(span, kind, span.name.lower() in again) for kind, names in groups for span in spans(names))
    return {key.span.name.lower(): key for key in keys}


_LOG_LEVEL = Pattern(
    r"quiet|fatal|error|info|verbose|debug[1-5]?|[0-9]{1,2}",
    "quiet, fatal, error, info, verbose, debug, debug2 ... debug5",
)
_LIMITS = Choices("ALL NONE AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK")
_PREEMPT_MODE = Choices("OFF CANCEL GANG REQUEUE SUSPEND WITHIN PRIORITY>=25.05")
_TIMESTAMP = Choices(
    "iso8601 iso8601_ms rfc5424 rfc5424_ms rfc3339 clock short thread_id format_stderr<=24.11",
    severity="warning",
)
_PRIVATE = Choices("accounts events jobs nodes partitions reservations usage users all none cloud", severity="warning")
_DEBUG_FLAGS = Choices(
    "Accrue Agent AuditRPCs AuditTLS>=25.05 Backfill BackfillMap BurstBuffer Cgroup ConMgr CPU_Bind CpuFrequency Data"
    " DBD_Agent DB_Archive DB_Assoc DB_Event DB_Job DB_QOS DB_Query DB_Reservation DB_Resource DB_Step DB_TRES"
    " DB_Usage DB_WCKey Dependency Elasticsearch Energy Federation FrontEnd<=24.11 Gang GLOB_SILENCE Gres Hetjob"
    " Interconnect JAG JobAccountGather JobComp JobContainer License Metrics>=25.11 Namespace>=25.11 NetRaw Network"
    " NetworkRaw NO_CONF_HASH NodeFeatures Power Priority Profile Protocol Reservation Route Sack Script SelectType"
    " Steps Switch Task Thread>=26.05 TLS TraceJobs Trigger Triggers WorkQ WorkQueue"
)
_AUTH = "jwt munge none slurm"
_NODE_STATE = Choices(
    "CLOUD DOWN DRAIN FAIL FAILING FUTURE UNKNOWN EXTERNAL>=25.05 IDLE ALLOCATED MIXED", separator="+"
)
_OVERSUBSCRIBE = Pattern(r"NO|EXCLUSIVE|(YES|FORCE)(:[0-9]{1,5})?", "NO, EXCLUSIVE, YES[:count] or FORCE[:count]")
_CPU_BIND = Choices(
    "none off verbose board boards core cores ldom ldoms socket sockets thread threads", severity="warning"
)

# The lists of options that came later than the oldest release here.
_SINCE: Final = {
    "CertgenParameters": ">=25.05",
    "CliFilterParameters": ">=25.11",
    "LicenseParameters": ">=26.05",
    "MetricsParameters": ">=26.05",
}

SLURM_CONF: Final = _table(
    (
        TEXT,
        (
            "AccountingStorageBackupHost AccountingStorageExternalHost AccountingStorageHost"
            " AccountingStorageLoc<=25.11 AccountingStoragePass AccountingStorageTRES"
            " AccountingStorageUser BackupAddr BackupController BcastExclude"
            " BurstBufferParameters"
            " ControlAddr ControlMachine CoreSpecPlugin"
            " CpuFreqDef CpuFreqGovernors CryptoType DataParserParameters Epilog"
            " EpilogSlurmctld ExtSensorsType GpuFreqDef HealthCheckProgram"
            " InteractiveStepOptions JobAcctGatherFrequency JobCompHost JobCompLoc"
            " JobCompPass JobCompPassScript>=25.11 JobCompUser"
            " JobCredentialPrivateKey JobCredentialPublicCertificate LaunchType"
            " Licenses MailDomain MailProg MCSParameters MetricsAuthUsers>=26.05"
            " MpiParams PluginDir PlugStackConfig PowerParameters PowerPlugin"
            " PrEpParameters PriorityParameters PrioritySiteFactorParameters PriorityWeightTRES"
            " Prolog PrologSlurmctld RebootProgram RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram"
            " ResvEpilog ResvProlog RoutePlugin SallocDefaultCommand"
            " SlurmctldAddr SlurmctldHttpAuthParameters>=26.05"
            " SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmdHttpAuthParameters>=26.05"
            " SlurmdUser SlurmUser SrunEpilog SrunProlog SuspendExcNodes SuspendExcParts SuspendExcStates"
            " SuspendProgram TaskEpilog TaskProlog"
            " UnkillableStepProgram"
        ),
    ),
    *((options, f"{name}{_SINCE.get(name, '')}") for name, options in OPTION_LISTS.items()),
    (
        _PATH,
        (
            "SlurmctldLogFile SlurmctldPidFile SlurmdLogFile SlurmdPidFile SlurmdSpoolDir SlurmSchedLogFile"
            " StateSaveLocation TmpFS"
        ),
    ),
    (_YES_NO, "AccountingStoreJobComment AllowSpecResourcesUsage DisableRootJobs PriorityFavorSmall TrackWCKey UsePAM"),
    (
        _U16,
        (
            "AcctGatherNodeFreq BatchStartTimeout CompleteWait EioTimeout EpilogTimeout>=25.05 ExtSensorsFreq"
            " FairShareDampeningFactor GetEnvTimeout GroupUpdateTime HealthCheckInterval"
            " HealthCheckTimeout>=26.05 InactiveLimit KillWait MessageTimeout OverTimeLimit PrologEpilogTimeout"
            " PrologTimeout>=25.05 ResumeRate ResumeTimeout ResvOverRun SlurmctldTimeout SlurmdTimeout SuspendRate"
            " SuspendTimeout TCPTimeout UnkillableStepTimeout VSizeFactor WaitTime"
        ),
    ),
    (
        _U32,
        (
            "EpilogMsgTime KeepAliveTime MaxBatchRequeue MaxJobCount MaxJobId MaxStepCount MinJobAge"
            " PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize"
            " PriorityWeightPartition PriorityWeightQOS"
        ),
    ),
    (_U64, "DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode MaxMemPerCPU MaxMemPerNode"),
    (Number(16, high=1), "GroupUpdateForce JobFileAppend JobRequeue KillOnBadExit SlurmSchedLogLevel"),
    (Number(16, high=2), "ReturnToService"),
    (Number(16, high=2, refused=True), "PropagatePrioProcess"),
    (Number(16, low=1), "TreeWidth"),
    (Number(16, low=5), "SchedulerTimeSlice"),
    (Number(16, high=65533), "MaxTasksPerNode"),
    (Number(32, high=4_000_001), "MaxArraySize"),
    (Number(32, low=10_000, refused=True), "MaxDBDMsgs"),
    (Number(32, high=65_536), "MaxNodeCount"),
    (Number(32, low=1, refused=True), "FirstJobId"),
    (_PORT, "AccountingStoragePort"),
    (Number(32, low=1, high=65535), "JobCompPort SlurmdPort"),
    (Ports(), "SlurmctldPort SrunPortRange"),
    (_TIME, "PreemptExemptTime PriorityCalcPeriod PriorityDecayHalfLife PriorityMaxAge"),
    (_SECONDS, "SuspendTime"),
    (_LOG_LEVEL, "SlurmctldDebug SlurmctldSyslogDebug SlurmdDebug SlurmdSyslogDebug"),
    (Pattern(r"[a-z0-9_.-]+", "letters, digits, '_', '-' and '.'"), "ClusterName"),
    (Pattern(r"[^()\s]+(\([^()\s]+\))?", "name or name(address)"), "SlurmctldHost"),
    (Choices("1 all associations limits nojobs nosteps qos safe wckeys"), "AccountingStorageEnforce"),
    (Choices("job_comment job_env job_extra job_script no_stdio", severity="warning"), "AccountingStoreFlags"),
    (_DEBUG_FLAGS, "DebugFlags"),
    (Choices("ALL ANY NO YES 0 1 true false up down", many=False), "EnforcePartLimits"),
    (
        Choices("ALLOC ANY CYCLE IDLE MIXED NONDRAINED_IDLE REBOOT_ONLY>=26.05 START_ONLY>=25.11", severity="warning"),
        "HealthCheckNodeState",
    ),
    (_TIMESTAMP, "LogTimeFormat"),
    (_PREEMPT_MODE, "PreemptMode"),
    (
        Choices(
            "ACCRUE_ALWAYS CALCULATE_RUNNING DEPTH_OBLIVIOUS FAIR_TREE NO_FAIR_TREE INCR_ONLY MAX_TRES"
            " MAX_TRES_GRES>=25.05 NO_NORMAL_ALL NO_NORMAL_ASSOC NO_NORMAL_PART NO_NORMAL_QOS NO_NORMAL_TRES"
            " SMALL_RELATIVE_TO_TIME",
            severity="warning",
        ),
        "PriorityFlags",
    ),
    (Choices("NONE NOW DAILY WEEKLY MONTHLY QUARTERLY YEARLY", many=False), "PriorityUsageResetPeriod"),
    (_PRIVATE, "PrivateData"),
    (Choices("Alloc Contain DeferBatch ForceRequeueOnFail NoHold RunInJob Serial X11"), "PrologFlags"),
    (_LIMITS, "PropagateResourceLimits PropagateResourceLimitsExcept"),
    (
        Choices("KeepNodeStateFuture<=25.11 KeepPartInfo KeepPartState KeepPowerSaveSettings", severity="warning"),
        "ReconfigFlags",
    ),
    (
        Choices(
            "CR_CPU CR_CPU_Memory CR_Core CR_Core_Memory CR_Socket CR_Socket_Memory CR_Memory"
            " CR_ONE_TASK_PER_CORE CR_CORE_DEFAULT_DIST_BLOCK CR_LLN CR_Pack_Nodes LL_SHARED_GRES"
            " MULTIPLE_SHARING_GRES_PJ ENFORCE_BINDING_GRES ONE_TASK_PER_SHARING_GRES CR_NO_DIST_TOPO_BLOCK>=26.05"
        ),
        "SelectTypeParameters",
    ),
    (
        Choices(
            "None Cores Sockets Threads Verbose SlurmdOffSpec OOMKillStep SlurmdSpecOverride>=25.05 Autobind=none"
            " Autobind=threads Autobind=cores Autobind=sockets"
        ),
        "TaskPluginParam",
    ),
    (Plugin("accounting_storage", "none slurmdbd"), "AccountingStorageType"),
    (
        Plugin("acct_gather_energy", "none gpu ibmaem ipmi pm_counters rapl xcc", many=True, bare=True),
        "AcctGatherEnergyType",
    ),
    (Plugin("acct_gather_filesystem", "none lustre"), "AcctGatherFilesystemType"),
    (Plugin("acct_gather_interconnect", "none ofed sysfs", many=True, bare=True), "AcctGatherInterconnectType"),
    (TEXT, "AcctGatherInfinibandType"),
    (Plugin("acct_gather_profile", "none hdf5 influxdb"), "AcctGatherProfileType"),
    (Plugin("auth", _AUTH, many=True, bare=True), "AuthAltTypes"),
    (Plugin("auth", _AUTH, bare=True), "AuthType"),
    (Plugin("burst_buffer", "none datawarp lua", bare=True), "BurstBufferType"),
    (Plugin("certgen", "none script", is_open=True), "CertgenType>=25.05"),
    (Plugin("certmgr", "none script", is_open=True), "CertmgrType"),
    (Plugin("cli_filter", "none lua syslog user_defaults", many=True, bare=True, is_open=True), "CliFilterPlugins"),
    (Plugin("cred", "munge none slurm", bare=True), "CredType"),
    (Plugin("hash", "k12 sha3", bare=True), "HashPlugin"),
    (Plugin("http_parser", "libhttp_parser llhttp_parser>=26.05"), "HttpParserType>=25.11"),
    (Plugin("url_parser", "libhttp_parser internal>=26.05"), "UrlParserType>=25.11"),
    (FastSchedule(), "FastSchedule"),
    (GresNames(), "GresTypes"),
    (Plugin("jobacct_gather", "none cgroup linux"), "JobAcctGatherType"),
    (Plugin("job_container", "none tmpfs"), "JobContainerType"),
    (Plugin("jobcomp", "none elasticsearch filetxt kafka lua mysql script", is_open=True), "JobCompType"),
    (
        Plugin(
            "job_submit",
            "all_partitions defaults logging lua partition pbs require_timelimit throttle",
            many=True,
            bare=True,
            is_open=True,
        ),
        "JobSubmitPlugins",
    ),
    (Plugin("mcs", "none account group label user", bare=True), "MCSPlugin"),
    (Plugin("metrics", "openmetrics", is_open=True), "MetricsType>=25.11"),
    (
        Plugin("mpi", "none cray_shasta pmi2 pmix pmix_v2 pmix_v3 pmix_v4 pmix_v5 pmix_v6", bare=True, is_open=True),
        "MpiDefault",
    ),
    (Plugin("namespace", "none linux tmpfs"), "NamespaceType>=25.11"),
    (
        Plugin("node_features", "helpers knl_cray knl_generic", many=True, bare=True, is_open=True),
        "NodeFeaturesPlugins",
    ),
    (Plugin("preempt", "none partition_prio qos"), "PreemptType"),
    (Plugin("prep", "script", many=True, bare=True, is_open=True), "PrEpPlugins"),
    (Plugin("site_factor", "none example", is_open=True), "PrioritySiteFactorPlugin"),
    (Plugin("priority", "basic multifactor"), "PriorityType"),
    (Plugin("proctrack", "cgroup linuxproc pgid"), "ProctrackType"),
    (Plugin("sched", "backfill builtin"), "SchedulerType"),
    (Plugin("select", "cons_tres linear"), "SelectType"),
    (Plugin("switch", "none hpe_slingshot nvidia_imex", is_open=True), "SwitchType"),
    (Plugin("task", "none affinity cgroup", many=True, bare=True), "TaskPlugin"),
    (Plugin("tls", "none s2n"), "TLSType"),
    (
        Plugin("topology", "none 3d_torus<=25.11 block default flat>=25.05 ring>=26.05 torus3d>=26.05 tree"),
        "TopologyPlugin",
    ),
    (_HOSTS, "DownNodes FrontendName<=24.11 NodeName"),
    (TEXT, "NodeSet PartitionName PowerAction>=26.05"),
    repeats="Epilog EpilogSlurmctld Prolog PrologSlurmctld SlurmctldHost DownNodes FrontendName NodeName NodeSet"
    " PartitionName PowerAction",
)

NODE_KEYS: Final = _table(
    (
        TEXT,
        (
            "BcastAddr CPUSpecList CpuBind Feature Features Gres GresConf>=25.05 NodeAddr NodeHostname"
            " Parameters>=25.11 Reason Topology>=25.05 TRESWeights"
        ),
    ),
    (
        _U16,
        "Boards CoreSpecCount CoresPerSocket CPUs Procs RestrictedCoresPerGPU Sockets SocketsPerBoard ThreadsPerCore",
    ),
    (_U32, "TmpDisk Weight"),
    (_U64, "MemSpecLimit RealMemory"),
    (Pattern(r"\[[-0-9,]+\]|[0-9]{1,5}", "a port, or one for each node: [7000-7003]"), "Port"),
    (_NODE_STATE, "State"),
    (_SECONDS, "SuspendTime>=26.05"),
)

NODESET_KEYS: Final = _table((TEXT, "Feature"), (_HOSTS, "Nodes"))

PARTITION_KEYS: Final = _table(
    (
        TEXT,
        "AllowAccounts AllowGroups AllowQos Alternate DenyAccounts DenyQos QOS Topology>=25.05 TRESBillingWeights",
    ),
    (_HOSTS, "AllocNodes Nodes"),
    (
        _YES_NO,
        "Default DisableRootJobs ExclusiveUser ExclusiveTopo Hidden LLN PowerDownOnIdle ReqResv RootOnly",
    ),
    (_U16, "OverTimeLimit Priority PriorityJobFactor PriorityTier ResumeTimeout SuspendTimeout"),
    (_U32, "GraceTime MaxCPUsPerNode MaxCPUsPerSocket MaxNodes MinNodes"),
    (_U64, "DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode MaxMemPerCPU MaxMemPerNode"),
    (_TIME, "DefaultTime MaxTime"),
    (_SECONDS, "SuspendTime"),
    (Choices("NO NODE USER TOPO", many=False), "Exclusive>=26.05"),
    (Choices("UP DOWN DRAIN INACTIVE", many=False), "State"),
    (_OVERSUBSCRIBE, "OverSubscribe Shared"),
    (_PREEMPT_MODE, "PreemptMode"),
    (_CPU_BIND, "CpuBind"),
    (
        Pattern(r".*CR_(core|socket).*", "CR_Core, CR_Core_Memory, CR_Socket or CR_Socket_Memory"),
        "SelectTypeParameters",
    ),
)

DOWN_KEYS: Final = _table((TEXT, "Reason"), (_NODE_STATE, "State"))
POWER_ACTION_KEYS: Final = _table((TEXT, "Program"), (Choices("slurmctld slurmd", many=False), "Location"))

_SLURM_RECORDS: Final = {
    "nodename": NODE_KEYS,
    "nodeset": NODESET_KEYS,
    "partitionname": PARTITION_KEYS,
    "downnodes": DOWN_KEYS,
    "frontendname": _table((TEXT, "AllowGroups AllowUsers DenyGroups DenyUsers FrontendAddr Port Reason State")),
    "poweraction": POWER_ACTION_KEYS,
}

_PURGE: Final = Pattern(r"[0-9]{1,9}(h|d|m|hours?|days?|months?)?", "a number of hours, days or months, like 12months")

SLURMDBD_CONF: Final = _table(
    (
        TEXT,
        (
            "ArchiveScript AuthAltParameters AuthInfo CommunicationParameters DbdAddr DbdBackupHost DbdHost"
            " DefaultQOS JobPurge Parameters PluginDir SlurmUser StepPurge StorageBackupHost StorageHost"
            " StorageLoc StorageParameters StoragePass StoragePassScript>=25.11 StorageUser TLSParameters"
        ),
    ),
    (_PATH, "ArchiveDir LogFile PidFile"),
    (
        _YES_NO,
        (
            "AllowNoDefAcct AllResourcesAbsolute ArchiveEvents ArchiveJobEnv>=26.05 ArchiveJobs"
            " ArchiveJobScript>=26.05 ArchiveResvs ArchiveSteps ArchiveSuspend ArchiveTXN ArchiveUsage"
            " DisableArchiveCommands>=25.11 DisableCoordDBD DisableRollups>=26.05 TrackSlurmctldDown TrackWCKey"
        ),
    ),
    (_U16, "CommitDelay MessageTimeout TCPTimeout"),
    (_PORT, "DbdPort StoragePort"),
    (_U32, "MaxPurgeLimit>=25.11"),
    (_TIME, "MaxQueryTimeRange"),
    (
        _PURGE,
        (
            "PurgeEventAfter PurgeJobAfter PurgeJobEnvAfter>=26.05 PurgeJobScriptAfter>=26.05 PurgeResvAfter"
            " PurgeStepAfter PurgeSuspendAfter PurgeTXNAfter PurgeUsageAfter"
        ),
    ),
    (
        _U32,
        "PurgeEventMonths PurgeJobMonths PurgeStepMonths PurgeSuspendMonths PurgeTXNMonths PurgeUsageMonths",
    ),
    (_DEBUG_FLAGS, "DebugFlags"),
    (_LOG_LEVEL, "DebugLevel DebugLevelSyslog"),
    (_TIMESTAMP, "LogTimeFormat"),
    (_PRIVATE, "PrivateData"),
    (Plugin("auth", _AUTH, bare=True), "AuthType"),
    (Plugin("auth", _AUTH, many=True, bare=True), "AuthAltTypes"),
    (Plugin("hash", "k12 sha3", bare=True), "HashPlugin"),
    (Plugin("accounting_storage", "none mysql"), "StorageType"),
    (Plugin("tls", "none s2n"), "TLSType"),
)

CGROUP_CONF: Final = _table(
    (TEXT, "AllowedDevicesFile CgroupReleaseAgentDir<=25.11 CgroupSlice>=25.11"),
    (_PATH, "CgroupMountpoint"),
    (
        _YES_NO,
        (
            "CgroupAutomount CgroupJobIdPaths>=26.05 ConstrainCores ConstrainDevices ConstrainRAMSpace"
            " ConstrainSwapSpace EnableControllers IgnoreSystemd IgnoreSystemdOnFailure SignalChildrenProcesses"
        ),
    ),
    (Decimal(), "AllowedRAMSpace AllowedSwapSpace MaxRAMPercent MaxSwapPercent"),
    (_U64, "MemorySwappiness MinRAMSpace SystemdTimeout"),
    (Choices("autodetect disabled cgroup/v1 cgroup/v2", many=False, exact=True), "CgroupPlugin"),
    (Choices("io hugetlb misc pids rdma all", severity="warning"), "EnableExtraControllers>=25.05"),
)

_DETECT: Final = Choices("nrt nvidia nvml off oneapi rsmi full>=26.05")
# NodeName only starts a line of gres.conf, Slurm does not know it after Name.
_GRES_RECORD: Final = _table(
    (_DETECT, "AutoDetect"),
    (Pattern(r"[0-9]{1,15}[kmgtp]?", "a number, with K, M, G, T or P if large"), "Count"),
    (TEXT, "CPUs Cores Flags Link Links Name Type"),
    (Files(), "File Files MultipleFiles"),
)
_JOB_CONTAINER: Final = (
    (TEXT, "CloneNSEpilog CloneNSScript Dirs"),
    (_U32, "CloneNSEpilog_Wait CloneNSScript_Wait"),
    (_YES_NO, "AutoBasePath EntireStepInNS Shared"),
)
_JOB_CONTAINER_RECORD: Final = _table(*_JOB_CONTAINER, (TEXT, "BasePath InitScript"))

FILES: Final[Mapping[str, FileRules]] = {
    "slurm.conf": FileRules(SLURM_CONF, _SLURM_RECORDS),
    "slurmdbd.conf": FileRules(SLURMDBD_CONF),
    "cgroup.conf": FileRules(CGROUP_CONF),
    "gres.conf": FileRules(
        _table((_DETECT, "AutoDetect"), (TEXT, "Name"), (_HOSTS, "NodeName"), repeats="Name NodeName"),
        {"name": _GRES_RECORD, "nodename": _GRES_RECORD},
    ),
    "job_container.conf": FileRules(
        _table(*_JOB_CONTAINER, (TEXT, "BasePath"), (_HOSTS, "NodeName"), repeats="BasePath NodeName"),
        {"basepath": _JOB_CONTAINER_RECORD, "nodename": _JOB_CONTAINER_RECORD},
    ),
    "topology.conf": FileRules(
        _table((TEXT, "BlockName BlockSizes SwitchName"), repeats="BlockName SwitchName"),
        {
            "blockname": _table((_HOSTS, "Nodes")),
            "switchname": _table((_HOSTS, "Nodes Switches"), (_U32, "LinkSpeed")),
        },
    ),
}

REMOVED: Final[Mapping[str, str | None]] = {
    "accountingstorageloc": None,
    "cgroupreleaseagentdir": None,
    "accountingstorejobcomment": "AccountingStoreFlags=job_comment",
    "sallocdefaultcommand": "LaunchParameters=use_interactive_step",
}
IGNORED: Final[Mapping[str, tuple[Version, str | None]]] = {
    "accountingstorageuser": ((25, 11), None),
    "backupaddr": ((24, 11), "SlurmctldHost"),
    "backupcontroller": ((24, 11), "SlurmctldHost"),
    "cgroupautomount": ((24, 11), None),
    "controladdr": ((24, 11), "SlurmctldHost"),
    "controlmachine": ((24, 11), "SlurmctldHost"),
    "corespecplugin": ((24, 11), None),
    "extsensorsfreq": ((24, 11), None),
    "extsensorstype": ((24, 11), None),
    "getenvtimeout": ((25, 5), None),
    "jobcredentialprivatekey": ((24, 11), None),
    "jobcredentialpubliccertificate": ((24, 11), None),
    "powerparameters": ((24, 11), None),
    "powerplugin": ((24, 11), None),
}
# Deprecated but still read: the first release in which Slurm says so, and the successor.
DEPRECATED: Final[Mapping[str, tuple[Version, str]]] = {
    "jobcontainertype": ((25, 11), "NamespaceType"),
}
# What no release here knows any more, by key of slurm.conf or cgroup.conf: the successor, where there is one.
GONE: Final[Mapping[str, str | None]] = {
    "allowedkmemspace": None,
    "cachegroups": "GroupUpdateForce",
    "checkpointtype": None,
    "constrainkmemspace": None,
    "defaultstoragehost": "AccountingStorageHost",
    "defaultstorageloc": None,
    "defaultstoragepass": "AccountingStoragePass",
    "defaultstorageport": "AccountingStoragePort",
    "defaultstoragetype": "AccountingStorageType",
    "defaultstorageuser": None,
    "forcedrequeueonfail": "PrologFlags=ForceRequeueOnFail",
    "jobacctgathertimeout": None,
    "jobacctfrequency": "JobAcctGatherFrequency",
    "jobaccttype": "JobAcctGatherType",
    "jobcheckpointdir": None,
    "layouts": None,
    "maxkmempercent": None,
    "memlimitenforce": "JobAcctGatherParams=OverMemoryKill",
    "minkmemspace": None,
    "msgaggregationparams": None,
    "schedulerauth": None,
    "schedulerport": None,
    "schedulerrootfilter": None,
    "slurmctldplugstack": None,
    "taskaffinity": "TaskPlugin=task/affinity in slurm.conf",
}
EXCLUSIVE: Final = (
    ("AllowAccounts", "DenyAccounts"),
    ("AllowQos", "DenyQos"),
    ("DefMemPerNode", "DefMemPerCPU"),
    ("MaxMemPerNode", "MaxMemPerCPU"),
)
