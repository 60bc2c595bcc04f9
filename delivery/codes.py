"""The codes of events, errors and reports about models on devices."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Code: TypeAlias = Literal[
    # asking the server
    "check_ok",
    "check_fail_dns",
    "check_fail_connect",
    "check_fail_tls",
    "check_fail_timeout",
    "check_fail_http4xx",
    "check_fail_http5xx",
    # believing it
    "sig_fail",
    "expired",
    "rollback_attack",
    "manifest_invalid",
    "policy_invalid",
    # fetching
    "download_ok",
    "download_resume",
    "download_fail",
    "hash_mismatch",
    "delta_ok",
    "delta_fail",
    "disk_full",
    # trying and running
    "load_ok",
    "load_fail",
    "golden_fail",
    "nan",
    "too_slow",
    "crash_trial",
    # going back, and what is kept
    "rollback",
    "recall",
    "quarantined",
    "stale",
    "state_rebuilt",
    # what a server says of a report
    "report_invalid",
]

CODES: frozenset[str] = frozenset(get_args(Code))
