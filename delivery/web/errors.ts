import { PalmError } from "../../engine/web/index.js";

/** What goes wrong with a release, as `palmkit.delivery.codes` has it. */
export type Code =
  | "check_fail_connect"
  | "check_fail_timeout"
  | "check_fail_http4xx"
  | "check_fail_http5xx"
  | "sig_fail"
  | "expired"
  | "rollback_attack"
  | "hash_mismatch"
  | "policy_invalid"
  | "manifest_invalid"
  | "download_fail"
  | "disk_full"
  | "quarantined";

/** A release could not be fetched, believed or kept. */
export class DeliveryError extends PalmError {
  constructor(
    readonly code: Code,
    message: string,
    options?: ErrorOptions,
  ) {
    super("delivery", message, options);
  }
}
