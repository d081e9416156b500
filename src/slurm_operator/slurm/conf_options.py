"""Parameters that are lists of options of their own: SchedulerParameters, SlurmctldParameters, LaunchParameters.

In: nothing. Out: OPTION_LISTS, by key the options that Slurm looks for in its value, for `conf_keys`. Slurm searches
the value for the names that it knows and says nothing of others, so a misspelled one has no effect: a warning.
The names are those of Slurm's manual and of its source, 24.11.5 and 26.05.5, with undocumented and old spellings that
the source still takes. A bound is the generous one, so that a name is never called unknown when Slurm takes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slurm_operator.slurm.conf_values import Complaint, Span, Version, closest, spans

_NUMBER: Final = re.compile(r"-?[0-9]{1,18}[kKmMgG]?\Z")


@dataclass(frozen=True, slots=True)
class _Option:
    """An option: its name with its versions, and what follows its equals sign.

    None: nothing need follow. "#": a number. "a|b": one of these. "": anything.
    """

    span: Span
    value: str | None

    def complaint(self, given: str | None) -> str | None:
        """What is wrong with the given value; None if nothing is."""
        if self.value != "#" and (not self.value or given is None):
            return None
        if given is None:
            return f"{self.span.name} needs a number, as in {self.span.name}=1"
        if self.value == "#":
            return None if _NUMBER.match(given) else f"{self.span.name}={given} is not a number"
        choices = self.value.split("|")
        return None if given.lower() in choices else f"{self.span.name}={given} is not one of {', '.join(choices)}"


@dataclass(frozen=True, slots=True)
class Options:
    """A comma list of options, each a name or a name with a value; case does not matter."""

    known: str
    # Whether an item that is a path is a value by itself, as older releases of Slurm have it.
    takes_path: bool = False
    _by_name: dict[str, _Option] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options = {span.name.partition("=")[0].lower(): _option(span) for span in spans(self.known)}
        object.__setattr__(self, "_by_name", options)

    def check(self, value: str, version: Version | None, /) -> Complaint | None:
        """The first item that Slurm would pass over."""
        for item in value.split(","):
            if complaint := self._check_one(item.strip(), version):
                return complaint
        return None

    def _check_one(self, item: str, version: Version | None) -> Complaint | None:
        name, sign, given = item.partition("=")
        if not item or (self.takes_path and item.startswith("/")):
            return None
        option = self._by_name.get(name.lower())
        if option is None:
            names = [each.span.name for each in self._by_name.values() if not each.span.objection(version)]
            guess = closest(name[:64], names)
            message = f"Slurm does not know the option {name[:64]!r} here, and ignores it"
            return Complaint(message, suggestion=guess, severity="warning", code="UnknownOption")
        if objection := option.span.objection(version):
            return Complaint(objection, severity="warning", code="WrongVersion")
        wrong = option.complaint(given if sign else None)
        return Complaint(wrong, severity="warning") if wrong else None


def _option(span: Span) -> _Option:
    name, sign, value = span.name.partition("=")
    return _Option(Span(name, span.since, span.until), value if sign else None)


_CONMGR: Final = (
    " conmgr_max_connections=# conmgr_threads=# conmgr_use_poll conmgr_connect_timeout=# conmgr_read_timeout=#"
    " conmgr_wait_write_delay=# conmgr_write_timeout=# conmgr_quiesce_timeout=#>=25.05 threadpool_preallocate=#>=25.05"
    " threadpool_preserve=#>=25.05"
)
_SSL: Final = " SSL_CERT= SSL_CA= SSL_CAPATH= SSL_KEY= SSL_CIPHER="
_BCAST: Final = "DestDir= Compression= send_libs="
_SLINGSHOT: Final = "".join(
    f" {limit}_{name}=#"
    for limit in ("def", "res", "max")
    for name in ("txqs", "tgqs", "eqs", "cts", "tles", "ptes", "les", "acs")
)

OPTION_LISTS: Final[Mapping[str, Options]] = {
    "AccountingStorageParameters": Options("max_step_records=#" + _SSL),
    "AuthAltParameters": Options(
        "disable_token_creation max_token_lifespan=# jwks= jwt_key= userclaimfield= use_jwt_client_ids>=25.05"
        " use_jwt_client_ids_only>=25.05"
    ),
    "AuthInfo": Options("cred_expire=# socket= ttl=# use_client_ids disable_sack", takes_path=True),
    "BcastParameters": Options(_BCAST),
    "CertgenParameters": Options("certgen_script= keygen_script="),
    "CertmgrParameters": Options(
        "certificate_renewal_period=# generate_csr_script= get_node_cert_key_script= get_node_token_script="
        " sign_csr_script= single_use_tokens validate_node_script="
    ),
    "CliFilterParameters": Options("cli_filter_lua_path="),
    "CommunicationParameters": Options(
        "block_null_hash block_zero_hash disable_http>=25.11 DisableIPv4 EnableIPv6 getnameinfo_cache_timeout=#"
        " host_unreach_retry_count=#>=25.05 keepaliveinterval=# keepaliveprobes=# keepalivetime=# NoAddrCache"
        " NoCtldInAddrAny NoInAddrAny"
    ),
    "DependencyParameters": Options("disable_remote_singleton kill_invalid_depend max_depend_depth=#"),
    "FederationParameters": Options("fed_display"),
    "JobAcctGatherParams": Options("NoShared NoShare UsePss OverMemoryKill DisableGPUAcct no_file_cache>=25.05"),
    "JobCompParams": Options(
        "connect_timeout=# flush_timeout=# poll_interval=# requeue_on_msg_timeout timeout=# topic="
        " enable_job_start>=25.05 topic_job_start=>=25.05 send_comment>=25.05 send_script>=25.05"
        " token_duration=#>=25.05" + _SSL
    ),
    "LaunchParameters": Options(
        "batch_step_set_cpu_freq cray_net_exclusive enable_nss_slurm lustre_no_flush mpir_use_nodeaddr"
        " disable_send_gids slurmstepd_memlock slurmstepd_memlock_all test_exec use_interactive_step"
        " ulimit_pam_adopt mem_sort<=25.11 interactive_step_set_cpu_freq>=25.05 srun_exclusive_allocation>=25.05"
    ),
    "LicenseParameters": Options("RemoteFuzzyMatch"),
    "MetricsParameters": Options("ignore_private_data"),
    "PreemptParameters": Options(
        "min_exempt_priority=# reclaim_licenses reorder_count=# send_user_signal strict_order suspend_grace_time=#"
        " youngest_first"
    ),
    "SbcastParameters": Options(_BCAST),
    "SchedulerParameters": Options(
        "allow_zero_lic assoc_limit_stop batch_sched_delay=# bb_array_stage_cnt=# bf_allow_magnetic_slot"
        " bf_busy_nodes bf_continue bf_hetjob_immediate bf_hetjob_prio=min|avg|max bf_interval=#"
        " bf_job_part_count_reserve=# bf_licenses bf_max_job_array_resv=# bf_max_job_assoc=# bf_max_job_part=#"
        " bf_max_job_start=# bf_max_job_test=# bf_max_job_user=# bf_max_job_user_part=# bf_max_time=#"
        " bf_min_age_reserve=# bf_min_prio_reserve=# bf_node_space_size=# bf_one_resv_per_job bf_resolution=#"
        " bf_running_job_reserve bf_topopt_enable bf_topopt_iterations=# bf_window=# bf_window_linear=#"
        " bf_yield_interval=# bf_yield_rpc_cnt=#>=25.05 bf_yield_rpc_count=#>=25.05 bf_yield_sleep=#"
        " build_queue_timeout=# correspond_after_task_cnt=# default_queue_depth=# defer defer_batch delay_boot="
        " disable_hetero_steps disable_hetjob_steps disable_job_shrink enable_hetero_steps enable_hetjob_steps"
        " enable_job_state_cache<=25.11 enable_user_top extra_constraints ignore_constraint_validation Ignore_NUMA"
        " ignore_prefer_validation interval=# jobs_per_user_per_hour=# max_array_tasks=# max_job_bf=# max_rpc_cnt=#"
        " max_rpc_count=# max_sched_time=# max_script_size=# max_submit_line_size=# max_switch_wait=#"
        " no_backup_scheduling no_env_cache<=25.11 nohold_on_prolog_fail pack_serial_at_end partition_job_depth=#"
        " permit_job_expansion preempt_reorder_count=# preempt_strict_order preempt_youngest_first"
        " reduce_completing_frag requeue_delay=>=25.05 requeue_on_resume_failure>=25.05"
        " requeue_setup_env_fail<=25.11 salloc_wait_nodes sbatch_wait_nodes sched_interval=# sched_max_job_start=#"
        " sched_min_interval=# spec_cores_first step_retry_count=# step_retry_time=# time_min_as_soft_limit"
        " whole_hetjob whole_pack"
    ),
    "ScronParameters": Options("enable explicit_scancel"),
    "SlurmctldParameters": Options(
        "allow_user_triggers cloud_dns cloud_reg_addrs disable_triggers enable_async_reply>=25.05 enable_configless"
        " enable_expedited_requeue>=25.05 enable_rpc_queue enable_stepmgr idle_on_node_suspend"
        " max_dbd_msg_action=discard|exit max_powered_nodes=# no_quick_restart node_reg_mem_percent="
        " power_save_interval=# power_save_min_interval=# preempt_send_user_signal reboot_from_controller"
        # The operator writes it for every version.
        " reconfig_on_restart rl_bucket_size=# rl_enable rl_exempt=>=25.05 rl_log_freq=# rl_refill_period=#"
        " rl_refill_rate=# rl_table_size=# user_resv_delete validate_nodeaddr_threads=#" + _CONMGR
    ),
    "SlurmdParameters": Options(
        "allow_ecores config_override config_overrides contain_spank l3cache_as_socket numa_node_as_socket"
        " shutdown_on_reboot" + _CONMGR
    ),
    "SwitchParameters": Options(
        "vnis= destroy_retries=# tcs= single_node_vni= job_vni= adjust_limits no_adjust_limits"
        " hwcoll_addrs_per_job=# hwcoll_num_nodes=# fm_url= fm_auth= fm_authdir= fm_authdir_ctld=>=25.05"
        " fm_mtls_url=>=25.05 fm_mtls_ca=>=25.05 fm_mtls_cert=>=25.05 fm_mtls_key=>=25.05"
        " jlope_url= jlope_auth= jlope_authdir= nic_distribution_count=#>=25.05 imex_channel_count=# imex_dev_major=#"
        + _SLINGSHOT
    ),
    "TLSParameters": Options(
        "ca_cert_file= ctld_cert_file= ctld_cert_key_file= dbd_cert_file= dbd_cert_key_file= restd_cert_file="
        " restd_cert_key_file= sackd_cert_file= sackd_cert_key_file= slurmd_cert_file= slurmd_cert_key_file="
        " load_system_certificates psk_file= psk_identity= security_policy_version="
    ),
    "TopologyParam": Options(
        "BlockAsNodeRank>=25.05 Dragonfly RoutePart RouteTree SwitchAsNodeRank TopoMaxSizeUnroll=# TopoOptional"
    ),
    "X11Parameters": Options("home_xauthority"),
}
