// What the agent answers to the console. Written by tests/ui/write_schema.ts from the agent's
// description; a test compares them.

/** The schemas of the description by their names. */
export interface Schemas {
  readonly Alias: "latest" | "lts" | "dev" | string;
  readonly Artifact: {
    readonly arch: string;
    readonly format: Schemas["ImageFormat"];
    readonly compression: Schemas["Compression"];
    readonly locations: readonly (Schemas["Location"])[];
    readonly variant?: string | null;
    readonly default_variant?: boolean | null;
    readonly size?: number | null;
    readonly firmware?: readonly (Schemas["Firmware"])[];
    readonly datasources?: readonly (string)[];
    readonly ssh_key_injection?: boolean | null;
    readonly integrity?: Schemas["Integrity"] | null;
  };
  readonly ChecksumFormat: "gnu" | "bsd" | "bare" | "vendor_document" | string;
  readonly ChecksumSource: {
    readonly format: Schemas["ChecksumFormat"];
    readonly url: string;
    readonly filename?: string | null;
  };
  readonly Compression: "none" | "gzip" | "xz" | "zstd" | "bzip2" | string;
  readonly ConsoleTicket: {
    readonly ticket: string;
    readonly url: string;
    readonly expires_at: string;
  };
  readonly Counters: {
    readonly queued: number;
    readonly running: number;
    readonly waiting: number;
    readonly succeeded: number;
    readonly failed: number;
    readonly canceled: number;
    readonly retried: number;
  };
  readonly Diagnosis: {
    readonly name: string;
    readonly outcome: string;
    readonly detail: string;
    readonly fix?: string;
    readonly parts?: readonly (Schemas["Wall"])[];
    readonly repaired: false;
  };
  readonly Digest: {
    readonly algorithm: Schemas["DigestAlgorithm"];
    readonly value: string;
    readonly source?: Schemas["ChecksumSource"] | null;
  };
  readonly DigestAlgorithm: "sha256" | "sha512";
  readonly Distro: {
    readonly id: string;
    readonly name?: string | null;
    readonly homepage?: string | null;
    readonly os_family: Schemas["OsFamily"];
    readonly dev_channel?: string | null;
    readonly releases: readonly (Schemas["Release"])[];
  };
  readonly DistroList: {
    readonly distros: readonly (Schemas["DistroSummary"])[];
  };
  readonly DistroSummary: {
    readonly id: string;
    readonly name?: string | null;
    readonly homepage?: string | null;
    readonly os_family: Schemas["OsFamily"];
  };
  readonly Execution:
    | "succeeded"
    | "failed"
    | "running"
    | "canceled"
    | "queued"
    | "waiting"
    | "retried"
    | "success"
    | "failure";
  readonly FailedAttempt: {
    readonly task: string;
    readonly phase: "chain" | "onerror" | "oncancel";
    readonly index: number;
    readonly attempt: number;
    readonly fallback: boolean;
    readonly error: unknown;
    readonly message: string;
    readonly started_at: string;
    readonly finished_at: string;
    readonly wait_seconds: number | null;
  };
  readonly FieldError: {
    readonly field: string;
    readonly code: "Missing" | "Invalid" | "UnknownField" | "TooLarge";
    readonly message: string;
  };
  readonly Firmware: "bios" | "uefi";
  readonly Host: {
    readonly name: string;
    readonly mode: "local" | "simulated" | "ssh";
    readonly version: string;
    readonly commit: string | null;
    readonly runtime: string;
    readonly target: string;
    readonly pid: number;
    readonly started_at: string;
    readonly time: string;
    readonly warnings: readonly ({
      readonly code: string;
      readonly message: string;
      readonly hint: string;
    })[];
    readonly slots: {
      readonly total: number;
      readonly busy: number;
    };
    readonly jobs: {
      readonly queued: number;
      readonly running: number;
      readonly waiting: number;
      readonly failed_24h: number;
      readonly last_failed: readonly ({
        readonly uuid: string;
        readonly name: string;
        readonly task: Schemas["SummaryTask"] | null;
        readonly error: string | null;
        readonly machine: {
          readonly uuid: string;
          readonly alias: string | null;
        } | null;
        readonly finished_at: string | null;
      })[];
    } | null;
    readonly system: {
      readonly read_at: string;
      readonly error: string | null;
      readonly value: {
        readonly hostname: string | null;
        readonly platform: string | null;
        readonly cpu: string | null;
        readonly cpus: number | null;
        readonly ram_mib: number | null;
        readonly hvm: boolean | null;
      } | null;
    };
    readonly pool: {
      readonly read_at: string;
      readonly error: string | null;
      readonly value: {
        readonly name: string;
        readonly used_bytes: number;
        readonly free_bytes: number;
      } | null;
    };
    readonly networks: {
      readonly read_at: string;
      readonly error: string | null;
      readonly value: readonly (string)[] | null;
    };
    readonly machines: {
      readonly read_at: string;
      readonly error: string | null;
      readonly value: {
        readonly total: number;
        readonly by_state: Readonly<Record<string, number>>;
      } | null;
    };
    readonly walls: {
      readonly read_at: string;
      readonly error: string | null;
      readonly value: readonly (Schemas["Wall"])[] | null;
    };
    readonly disk: {
      readonly read_at: string;
      readonly error: string | null;
      readonly value: {
        readonly folder: string;
        readonly free_bytes: number | null;
      } | null;
    };
    readonly brands: readonly (string)[];
    readonly policy: {
      readonly allow_brand: readonly (string)[];
      readonly vcpus_max: number;
      readonly ram_mib_max: number;
      readonly disks_max: number;
      readonly disk_mib_max: number;
      readonly nics_max: number;
      readonly quota_gib_max: number;
      readonly allow_nic_tag: readonly (string)[];
      readonly foreign_machines: string;
      readonly forbid_property: readonly (string)[];
    };
    readonly index: {
      readonly upstream: string | null;
      readonly interval_seconds: number;
      readonly compared_at: string | null;
      readonly age_seconds: number | null;
      readonly outcome: "complete" | "partial" | "failed" | null;
      readonly problems: number;
    };
    readonly cache: {
      readonly bytes: number;
      readonly max_bytes: number | null;
    };
    readonly store: {
      readonly bytes: number;
      readonly free_bytes: number;
    };
    readonly leftovers: number | null;
    readonly settings_waiting: readonly (string)[];
  };
  readonly HourlyStats: {
    readonly since: string;
    readonly until: string;
    readonly total: {
      readonly succeeded: number;
      readonly failed: number;
      readonly canceled: number;
      readonly retried: number;
    };
    readonly hours: readonly ({
      readonly hour: string;
      readonly succeeded: number;
      readonly failed: number;
      readonly canceled: number;
      readonly retried: number;
    })[];
  };
  readonly HttpMetadata: {
    readonly etag?: string | null;
    readonly last_modified?: string | null;
  };
  readonly ImageFormat: "qcow2" | "raw" | "vmdk" | string;
  readonly ImagePage: {
    readonly images: readonly (Schemas["ListedImage"])[];
    readonly next: string | null;
  };
  readonly IndexProgress: {
    readonly phase: "list" | "documents" | "store";
    readonly documents: number;
    readonly total: number;
    readonly bytes: number;
  };
  readonly IndexStatus: {
    readonly upstream: string | null;
    readonly syncing: boolean;
    readonly progress: Schemas["IndexProgress"] | null;
    readonly last_sync: Schemas["IndexSync"] | null;
    readonly compared_at: string | null;
    readonly age_seconds: number | null;
    readonly documents: number;
  };
  readonly IndexSync: {
    readonly started_at: string;
    readonly finished_at: string;
    readonly upstream: string;
    readonly outcome: "complete" | "partial" | "failed";
    readonly added: number;
    readonly changed: number;
    readonly removed: number;
    readonly unchanged: number;
    readonly problems: readonly ({
      readonly document: string;
      readonly message: string;
      readonly json_path?: string;
      readonly reason?: string;
      readonly kept?: boolean;
    })[];
    readonly compared_at?: string;
    readonly retry_after_seconds?: number;
  };
  readonly Integrity: {
    readonly digests?: readonly (Schemas["Digest"])[];
    readonly http?: Schemas["HttpMetadata"] | null;
    readonly signatures?: readonly (Schemas["Signature"])[];
  };
  readonly Job: {
    readonly uuid: string;
    readonly workflow_uuid: string;
    readonly name: string;
    readonly execution: Schemas["Execution"];
    readonly chain: readonly (Schemas["Task"])[];
    readonly onerror: readonly (Schemas["Task"])[];
    readonly oncancel?: readonly (Schemas["Task"])[];
    readonly timeout: number;
    readonly exec_after: string;
    readonly target?: string;
    readonly locks?: string;
    readonly callback_url?: string;
    readonly reason?: "scheduled" | "waiting_for_slot" | "waiting_for_resume";
    readonly next_run_at?: string;
    readonly params: Readonly<Record<string, unknown>>;
    readonly chain_results: readonly (Schemas["TaskResult"])[];
    readonly onerror_results: readonly (Schemas["TaskResult"])[];
    readonly oncancel_results?: readonly (Schemas["TaskResult"])[];
    readonly created_at: string;
    readonly started_at?: string;
    readonly finished_at?: string;
    readonly elapsed: number;
    readonly runner_id?: string;
    readonly host?: string;
    readonly host_uuid?: string;
    readonly host_state?: "connected" | "away" | "cordoned" | "forgotten";
    readonly stop_confirmed?: false;
    readonly placement?: "any";
    readonly ordered_by?: string;
    readonly num_attempts?: number;
    readonly prev_attempt?: string;
    readonly next_attempt_refused?: string;
    readonly params_from?: string;
    readonly next_attempt?: string;
  };
  readonly JobCounts: {
    readonly counts: {
      readonly queued: number;
      readonly running: number;
      readonly waiting: number;
      readonly succeeded: number;
      readonly failed: number;
      readonly canceled: number;
      readonly retried: number;
    };
    readonly whole: boolean;
  };
  readonly JobSummary: {
    readonly uuid: string;
    readonly name: string;
    readonly workflow_uuid: string;
    readonly state:
      | "queued"
      | "running"
      | "waiting"
      | "succeeded"
      | "failed"
      | "canceled"
      | "retried";
    readonly reason:
      | "scheduled"
      | "waiting_for_slot"
      | "waiting_for_resume"
      | "waiting_for_retry"
      | "stopping"
      | "undoing"
      | null;
    readonly next_run_at: string | null;
    readonly task: Schemas["SummaryTask"] | null;
    readonly tasks_done: number;
    readonly tasks_total: number;
    readonly progress: Readonly<Record<string, unknown>> | null;
    readonly error: string | null;
    readonly target: string | null;
    readonly machine: {
      readonly uuid: string;
      readonly alias: string | null;
    } | null;
    readonly host: string | null;
    readonly host_uuid: string | null;
    readonly host_state: "connected" | "away" | "cordoned" | "forgotten" | null;
    readonly created_at: string;
    readonly started_at: string | null;
    readonly finished_at: string | null;
    readonly elapsed: number;
    readonly duration: number | null;
    readonly params: Readonly<Record<string, unknown>> | null;
    readonly params_bytes: number;
    readonly prev_attempt: string | null;
    readonly next_attempt: string | null;
  };
  readonly Leftover: {
    readonly uuid: string;
    readonly host: string;
    readonly host_uuid: string | null;
    readonly job_uuid: string;
    readonly job_execution: Schemas["Execution"];
    readonly claimed_at: string;
    readonly tries: number;
    readonly next_try_at: string | null;
    readonly error: string | null;
  };
  readonly LibraryFile: {
    readonly name: string;
    readonly place: "folder" | "upload" | "cache";
    readonly folder: string | null;
    readonly path: string;
    readonly size: number;
    readonly modified_at: string | null;
    readonly kind: string;
    readonly boot_record: boolean | null;
    readonly problem: string | null;
    readonly digest: string | null;
    readonly level: "none" | "index" | "vendor" | "signature" | null;
    readonly used_by: readonly (string)[];
  };
  readonly ListedHost: {
    readonly uuid: string;
    readonly name: string;
    readonly state: "connected" | "away" | "cordoned" | "forgotten";
    readonly this_host: boolean;
    readonly version: string;
    readonly slots: number;
    readonly running: number;
    readonly queued: number;
    readonly capabilities: readonly (string)[];
    readonly brands: readonly (string)[];
    readonly allow_workflow: readonly (string)[];
    readonly allow_caller: readonly (string)[];
    readonly address: string | null;
    readonly generation: number;
    readonly seen_at: string;
    readonly age_seconds: number;
    readonly lease_seconds: number;
    readonly cordoned: boolean;
    readonly forgotten: boolean;
  };
  readonly ListedImage: {
    readonly distro: string;
    readonly release: string;
    readonly aliases: readonly (string)[];
    readonly build: string;
    readonly point_release: string | null;
    readonly published_at: string | null;
    readonly archived: boolean;
    readonly url: string | null;
    readonly artifact: Schemas["Artifact"];
  };
  readonly Location: {
    readonly url: string;
    readonly kind?: Schemas["LocationKind"] | null;
    readonly redirects_off_host?: boolean | null;
  };
  readonly LocationKind: "primary" | "vault" | "mirror";
  readonly LogLine: {
    readonly sequence: number;
    readonly time: string;
    readonly task: string | null;
    readonly attempt: number | null;
    readonly level: "debug" | "info" | "warn" | "error";
    readonly message: string | null;
    readonly progress: Readonly<Record<string, unknown>> | null;
    readonly fields: Readonly<Record<string, unknown>> | null;
  };
  readonly Machine: {
    readonly uuid: string;
    readonly host: string | null;
    readonly host_uuid: string | null;
    readonly age_seconds: number | null;
    readonly alias: string | null;
    readonly brand: string | null;
    readonly state: string;
    readonly zone_state: string | null;
    readonly ram: number | null;
    readonly vcpus: number | null;
    readonly created_at: string | null;
    readonly owner_uuid: string | null;
    readonly disks: readonly (Schemas["MachineDisk"])[];
    readonly nics: readonly (Schemas["MachineNic"])[];
    readonly media: Schemas["Media"] | null;
    readonly medium: string | null;
    readonly job_uuid: string | null;
    readonly job_execution: Schemas["Execution"] | null;
  };
  readonly MachineDisk: {
    readonly path: string | null;
    readonly media: string | null;
    readonly model: string | null;
    readonly size: number | null;
    readonly boot: boolean | null;
  };
  readonly MachineDryRun: {
    readonly dry_run: true;
    readonly possible: boolean;
    readonly uuid: string | null;
    readonly job_uuid: string | null;
    readonly machine: Readonly<Record<string, unknown>>;
    readonly media: Schemas["Media"];
    readonly boot: "cd" | "disk";
    readonly medium: {
      readonly name: string;
      readonly size: number | null;
    } | null;
    readonly problems: readonly ({
      readonly error_code: string;
      readonly status: number;
      readonly message: string;
      readonly errors: readonly (Schemas["FieldError"])[];
    })[];
    readonly unchecked: readonly (string)[];
  };
  readonly MachineNic: {
    readonly interface: string | null;
    readonly mac: string | null;
    readonly nic_tag: string | null;
    readonly vlan_id: number | null;
    readonly model: string | null;
    readonly gateway: string | null;
    readonly primary: boolean | null;
    readonly ips: readonly (string)[];
  };
  readonly MachineRead: {
    readonly uuid: string;
    readonly host: string | null;
    readonly host_uuid: string | null;
    readonly age_seconds: number | null;
    readonly alias: string | null;
    readonly brand: string | null;
    readonly state: string;
    readonly zone_state: string | null;
    readonly ram: number | null;
    readonly vcpus: number | null;
    readonly created_at: string | null;
    readonly owner_uuid: string | null;
    readonly disks: readonly (Schemas["MachineDisk"])[];
    readonly nics: readonly (Schemas["MachineNic"])[];
    readonly media: Schemas["Media"] | null;
    readonly medium: string | null;
    readonly job_uuid: string | null;
    readonly job_execution: Schemas["Execution"] | null;
    readonly console: string | null;
    readonly vnc: Schemas["VncAddress"] | null;
  };
  readonly MachineStarted: {
    readonly uuid: string;
    readonly job_uuid: string;
    readonly host?: string;
    readonly host_uuid?: string;
    readonly host_state?: "connected" | "away" | "cordoned" | "forgotten";
  };
  readonly Media: {
    readonly path: unknown;
    readonly digest?: string;
  } | {
    readonly url: string;
    readonly digest?: string;
    readonly compression?: "none" | "gzip" | "xz" | "zstd" | "bzip2";
    readonly check?: "none" | "index" | "vendor" | "signature";
    readonly allow_unverified?: boolean;
  } | {
    readonly artifact: {
      readonly distro: string;
      readonly release: string;
      readonly build?: string;
      readonly variant?: string;
      readonly arch?: string;
      readonly format?: "iso" | "img" | "raw";
    };
    readonly digest?: string;
    readonly check?: "none" | "index" | "vendor" | "signature";
    readonly allow_unverified?: boolean;
  };
  readonly MediaFolder: {
    readonly path: string;
    readonly place: "folder" | "upload";
    readonly problem: string | null;
  };
  readonly MediaLibrary: {
    readonly folders: readonly (Schemas["MediaFolder"])[];
    readonly files: readonly (Schemas["LibraryFile"])[];
    readonly truncated: boolean;
    readonly cache: {
      readonly bytes: number;
      readonly bytes_max: number | null;
    };
  };
  readonly MediumStarted: {
    readonly job_uuid: string;
  };
  readonly OsFamily: "linux" | "bsd" | "illumos";
  readonly OsinfoRef: {
    readonly id: string;
    readonly short_id: string;
  };
  readonly Release: {
    readonly id: string;
    readonly title?: string | null;
    readonly version?: string | null;
    readonly eol_date?: string | null;
    readonly aliases?: readonly (Schemas["Alias"])[];
    readonly osinfo?: Schemas["OsinfoRef"] | null;
  };
  readonly Session: {
    readonly caller: string | null;
    readonly scope: "read" | "admin" | null;
    readonly csrf: string | null;
    readonly expires_at: string | null;
  };
  readonly Signature: {
    readonly kind: Schemas["SignatureKind"];
    readonly signs: string;
    readonly url: string;
    readonly key_url?: string | null;
  };
  readonly SignatureKind: "pgp_detached" | "pgp_clearsigned" | string;
  readonly Stats: {
    readonly all_time: Schemas["Counters"];
    readonly past_24h: Schemas["Counters"];
    readonly past_hour: Schemas["Counters"];
    readonly current: Schemas["Counters"];
  };
  readonly SummaryTask: {
    readonly name: string;
    readonly phase: "chain" | "onerror" | "oncancel";
    readonly index: number;
    readonly attempt: number | null;
    readonly since: string | null;
    readonly next_retry_at: string | null;
  };
  readonly Task: {
    readonly uuid: string;
    readonly name?: string;
    readonly body: string;
    readonly fallback?: string;
    readonly retry?: number;
    readonly timeout?: number;
    readonly retry_delay?: number;
  };
  readonly TaskResult: {
    readonly result: unknown;
    readonly error: string | {
      readonly name?: string;
      readonly message?: string;
    };
    readonly name: string;
    readonly started_at: string;
    readonly finished_at: string;
    readonly attempts: number;
  };
  readonly ValidWorkflow: {
    readonly valid: true;
    readonly name: string;
    readonly tasks: number;
  };
  readonly VncAddress: {
    readonly host: string;
    readonly port: number;
    readonly display?: number;
  };
  readonly VncInfo: {
    readonly vnc: {
      readonly host?: string;
      readonly port?: number;
      readonly display?: number;
      readonly password?: string;
    };
  };
  readonly Wall: {
    readonly name: string;
    readonly ok: boolean;
    readonly detail: string;
  };
  readonly Workflow: {
    readonly uuid: string;
    readonly name: string;
    readonly chain: readonly (Schemas["Task"])[];
    readonly onerror: readonly (Schemas["Task"])[];
    readonly oncancel?: readonly (Schemas["Task"])[];
    readonly timeout?: number;
    readonly placement?: "any";
    readonly secret_params?: readonly (string)[];
  };
  readonly WorkflowRead: {
    readonly uuid: string;
    readonly name: string;
    readonly chain: readonly (Schemas["Task"])[];
    readonly onerror: readonly (Schemas["Task"])[];
    readonly oncancel?: readonly (Schemas["Task"])[];
    readonly timeout?: number;
    readonly placement?: "any";
    readonly secret_params?: readonly (string)[];
    readonly wf_uuid: string;
  };
}

/** The body of each successful answer. */
export interface Answers {
  readonly "GET /agent/v1/config": {
    readonly settings: readonly ({
      readonly name: string;
      readonly value: unknown;
      readonly text: string | null;
      readonly origin: "default" | "file" | "environment" | "flag";
      readonly source: string | null;
      readonly meaning: string;
      readonly reloads: boolean;
    })[];
    readonly waiting: readonly (string)[];
  };
  readonly "GET /agent/v1/doctor": {
    readonly examined_at: string;
    readonly checks: readonly (Schemas["Diagnosis"])[];
  };
  readonly "GET /agent/v1/host": Schemas["Host"];
  readonly "GET /agent/v1/hosts": readonly (Schemas["ListedHost"])[];
  readonly "GET /agent/v1/images": Schemas["ImagePage"];
  readonly "GET /agent/v1/index": Schemas["IndexStatus"];
  readonly "GET /agent/v1/jobs": {
    readonly jobs: readonly (Schemas["JobSummary"])[];
    readonly next: string | null;
  };
  readonly "GET /agent/v1/jobs/counts": Schemas["JobCounts"];
  readonly "GET /agent/v1/jobs/{job_uuid}": {
    readonly uuid: string;
    readonly name: string;
    readonly workflow_uuid: string;
    readonly state:
      | "queued"
      | "running"
      | "waiting"
      | "succeeded"
      | "failed"
      | "canceled"
      | "retried";
    readonly reason:
      | "scheduled"
      | "waiting_for_slot"
      | "waiting_for_resume"
      | "waiting_for_retry"
      | "stopping"
      | "undoing"
      | null;
    readonly next_run_at: string | null;
    readonly task: Schemas["SummaryTask"] | null;
    readonly tasks_done: number;
    readonly tasks_total: number;
    readonly progress: Readonly<Record<string, unknown>> | null;
    readonly error: string | null;
    readonly target: string | null;
    readonly machine: {
      readonly uuid: string;
      readonly alias: string | null;
    } | null;
    readonly host: string | null;
    readonly host_uuid: string | null;
    readonly host_state: "connected" | "away" | "cordoned" | "forgotten" | null;
    readonly created_at: string;
    readonly started_at: string | null;
    readonly finished_at: string | null;
    readonly elapsed: number;
    readonly duration: number | null;
    readonly params: Readonly<Record<string, unknown>> | null;
    readonly params_bytes: number;
    readonly prev_attempt: string | null;
    readonly next_attempt: string | null;
    readonly secret_params: readonly (string)[];
    readonly attempts: readonly (Schemas["FailedAttempt"])[];
  };
  readonly "GET /agent/v1/jobs/{job_uuid}/log": {
    readonly lines: readonly (Schemas["LogLine"])[];
    readonly before: number | null;
    readonly after: number;
    readonly more: boolean;
  };
  readonly "GET /agent/v1/leftovers": readonly (Schemas["Leftover"])[];
  readonly "GET /agent/v1/machines": readonly (Schemas["Machine"])[];
  readonly "GET /agent/v1/machines/{uuid}": Schemas["MachineRead"];
  readonly "GET /agent/v1/machines/{uuid}/vnc": Schemas["VncInfo"];
  readonly "GET /agent/v1/media/library": Schemas["MediaLibrary"];
  readonly "GET /agent/v1/session": Schemas["Session"];
  readonly "GET /agent/v1/stats/hourly": Schemas["HourlyStats"];
  readonly "GET /jobs/{job_uuid}": Schemas["Job"];
  readonly "GET /stats": Schemas["Stats"];
  readonly "GET /v1/distros/{distro}/index.json": Schemas["Distro"];
  readonly "GET /v1/index.json": Schemas["DistroList"];
  readonly "GET /workflows": readonly (Schemas["Workflow"])[];
  readonly "GET /workflows/{wf_uuid}": Schemas["WorkflowRead"];
  readonly "POST /agent/v1/jobs/{job_uuid}/retry": Schemas["Job"];
  readonly "POST /agent/v1/machines/{uuid}/console-tickets": Schemas["ConsoleTicket"];
  readonly "POST /agent/v1/machines": Schemas["MachineDryRun"] | Schemas["MachineStarted"];
  readonly "POST /agent/v1/media": Schemas["MediumStarted"];
  readonly "POST /agent/v1/media/{digest}/verify": Schemas["MediumStarted"];
  readonly "POST /agent/v1/session": Schemas["Session"];
  readonly "POST /agent/v1/workflows/validate": Schemas["ValidWorkflow"];
}
