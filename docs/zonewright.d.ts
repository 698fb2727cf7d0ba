// deno-lint-ignore-file no-explicit-any no-var
// Types for the bodies and fallbacks of zonewright's workflows, so that an editor completes and
// checks them. The page about tasks, docs/tasks.md, explains how to use this file;
// `zonewright workflow types` prints it. It declares globals and nothing else: what a body may call,
// and the namespace Zonewright, which holds the types.

/** The types of everything that a task body is given, may call, and gets back. */
declare namespace Zonewright {
  /**
   * `Value` if JSON can represent it: no function, symbol or bigint, at any depth. A member that is
   * `undefined` is left out.
   */
  type Json<Value> = unknown extends Value ? Value
    : Value extends string | number | boolean | null | undefined ? Value
    : Value extends bigint | symbol | ((...args: never[]) => unknown) ? never
    : Value extends { toJSON(key?: string): unknown } ? Value
    : { [Key in keyof Value]: Json<Value[Key]> };

  // ---- Tasks and workflows ----

  /**
   * The `body` of a task, written as a plain function. It is stored as text and runs alone:
   * it sees its arguments and the globals of this file, and nothing around it in the file.
   */
  type Body<Params = AnyParams> = (job: Job<Params>, cb: Callback) => any;

  /**
   * A {@linkcode Body} written as an `async` function. It has to call `cb` too: the value
   * of its promise is ignored, and its rejection fails the task.
   */
  type AsyncBody<Params = AnyParams> = (job: Job<Params>, cb: Callback) => Promise<any>;

  /** The `fallback` of a task: called with the error of the body, after its last retry. */
  type Fallback<Params = AnyParams> = (err: TaskError, job: Job<Params>, cb: Callback) => any;

  /** A {@linkcode Fallback} written as an `async` function. */
  type AsyncFallback<Params = AnyParams> = (
    err: TaskError,
    job: Job<Params>,
    cb: Callback,
  ) => Promise<any>;

  /** One task, with functions instead of their text. */
  interface Task {
    /** Names the task in results, logs and `job retry --from`. */
    name?: string;
    /** What the task does. A function expression or the name of a function, not a method. */
    body: Body<any> | string;
    /** Called after the body has failed for good. */
    fallback?: Fallback<any> | string;
    /** Further executions of the body after the first one fails; 0 by default. */
    retry?: number;
    /** Seconds for one execution of body or fallback; by default, the workflow's timeout. */
    timeout?: number;
    /** Seconds between a failed execution and the next; 0 by default. */
    retry_delay?: number;
    /** Chosen by the agent unless given. */
    uuid?: string;
  }

  /** A workflow, with functions instead of their text. */
  interface Workflow {
    /** At most 255 characters. */
    name: string;
    /** The tasks of a job, one after another; a job needs at least one. */
    chain: Task[];
    /** Tasks that run when the chain has failed. */
    onerror?: Task[];
    /** Tasks that run when a job is canceled after it has begun. */
    oncancel?: Task[];
    /** Seconds for the whole chain; 3600 by default. Time spent queued or waiting does not count. */
    timeout?: number;
    /** Jobs that `cb("retry")` may make in all, including the first; 10 by default. */
    max_attempts?: number;
    /** Milliseconds before the first job that `cb("retry")` makes; it doubles for each further one. */
    initial_delay?: number;
    /** Most milliseconds before such a job. */
    max_delay?: number;
  }

  /** Unknown params. Declare yours: `Zonewright.Body<{ uuid: string }>`. */
  type AnyParams = { [name: string]: any };

  /**
   * The callback of a task. It is called once: only the first call counts. A task that never calls
   * it ends at its `timeout`, or as soon as an async body has nothing pending.
   */
  interface Callback {
    /** Succeeds. The result is at most 1 MiB of JSON; `"OK"` by default. */
    <Result>(error?: null, result?: Result & Json<Result>): void;
    /**
     * - `wait`: the job waits for `POST /jobs/:job_uuid/resume`; then the next task runs.
     * - `queue`: the job goes back to the queue; the next task runs when its turn comes.
     * - `retry`: the job ends as `retried`, and a new one takes its place.
     * - `cancel`: the job is canceled; its `oncancel` tasks run.
     */
    <Result>(
      word: "wait" | "queue" | "retry" | "cancel",
      result?: Result & Json<Result>,
    ): void;
    /** Fails: `retry` further executions, then the fallback, then the chain has failed. */
    (error: unknown): void;
  }

  /** The error of a task: the text given to `cb`, or name and message of what was thrown. */
  type TaskError =
    | string
    | { readonly name: string; readonly message: string }
    /** An HTTP error, which is kept with all its fields. */
    | { readonly statusCode: any; readonly [field: string]: any };

  /** How a task ended, in `job.chain_results` and `job.onerror_results`. */
  interface TaskResult {
    /** What the task gave to `cb`; empty if it failed. */
    readonly result: any;
    /** Empty if there was none; the word given to `cb` if it was one of the four. */
    readonly error: TaskError;
    /** The name of the task, or its uuid if it has none. */
    readonly name: string;
    /** ISO 8601 in UTC, like all times. */
    readonly started_at: string;
    readonly finished_at: string;
    /** Executions of the body, without those that ended with the agent. */
    readonly attempts: number;
  }

  /** A task as the job has it: with its uuid, and with text instead of functions. */
  interface StoredTask {
    readonly uuid: string;
    readonly name?: string;
    readonly body: string;
    readonly fallback?: string;
    readonly retry?: number;
    readonly timeout?: number;
    readonly retry_delay?: number;
    readonly [key: string]: any;
  }

  /**
   * A copy of the job. What a task sets on it or on its `params` is seen by later tasks and in
   * `GET /jobs/:job_uuid`; it is recorded together with the result of the task.
   */
  interface Job<Params = AnyParams> {
    readonly uuid: string;
    /** Name of the workflow. */
    readonly name: string;
    /** The params given to `POST /jobs`, as changed by earlier tasks. */
    params: Params;
    /** Executions of this task, including this one and those that ended with the agent; from 1. */
    readonly attempt: number;
    readonly target?: string;
    /** The uuid of the host that runs this task. Absent in `zonewright workflow try`. */
    readonly host_uuid?: string;
    /** Results of the earlier tasks, in order. */
    readonly chain_results: readonly TaskResult[];
    readonly onerror_results: readonly TaskResult[];
    /** In tasks of `onerror`: the error of the chain. */
    error?: TaskError;
    /** `canceled` in tasks of `oncancel`. */
    readonly execution: "running" | "canceled";
    /** The uuid of the workflow; the same as `workflow_uuid`. */
    readonly workflow: string;
    readonly workflow_uuid: string;
    readonly chain: readonly StoredTask[];
    readonly onerror: readonly StoredTask[];
    /** Seconds for the whole chain. */
    readonly timeout: number;
    readonly exec_after: string;
    readonly created_at: string;
    /** When a runner first took the job, milliseconds since 1970. */
    readonly started: number | null;
    /** Jobs before this one that ended as `retried`. */
    readonly num_attempts?: number;
    /** The job that this one repeats. */
    readonly prev_attempt?: string;
    /** Writes to the agent's log and to the info of the job. */
    readonly log: JobLog;
    /** What tasks have set. */
    [name: string]: any;
  }

  /** A method of `job.log`: a format with `%s`, `%d`, `%i`, `%f`, `%j`, `%o`, and values. */
  interface JobLogMethod {
    (format: string, ...values: unknown[]): void;
    /** Fields, or an error, before the text. */
    (fields: object, format?: string, ...values: unknown[]): void;
    /** Whether the level is logged: always. */
    (): true;
  }

  /** The methods of a bunyan logger. */
  interface JobLog {
    readonly trace: JobLogMethod;
    readonly debug: JobLogMethod;
    readonly info: JobLogMethod;
    readonly warn: JobLogMethod;
    readonly error: JobLogMethod;
    readonly fatal: JobLogMethod;
    /** A log whose lines have these fields too. */
    child(fields?: object): JobLog;
  }

  // ---- Refusals ----

  /** Why the agent refused a call, in one word. */
  type ErrorCode =
    /** An argument is missing or incorrect; the message names it: `payload.disks[0].size`. */
    | "invalid_argument"
    /** The policy, or the folder of a file, does not allow it. */
    | "forbidden"
    | "not_found"
    /** The current state does not allow it, or an address is taken. */
    | "conflict"
    /** Something already has this uuid. */
    | "already_exists"
    /** vmadm failed; the message quotes it. */
    | "host"
    /** A download failed. */
    | "upstream"
    /** The bytes have another digest. */
    | "digest_mismatch"
    | "storage_full"
    | "timeout"
    | "too_large"
    | "overloaded"
    /** The task was aborted. */
    | "aborted"
    /** A defect of the agent; its log has more. */
    | "internal";

  /** The error with which the promise of a capability rejects. */
  interface CapabilityError extends Error {
    /** Missing if the call never left the body: too many at a time, or arguments too large. */
    readonly code?: ErrorCode;
  }

  // ---- Capabilities ----

  /**
   * Everything that a body may call. Every call returns a promise, which is rejected
   * with a {@linkcode CapabilityError}. At most 32 calls may be pending.
   */
  interface Capabilities {
    readonly vmadm: Vmadm;
    readonly media: Media;
    readonly images: Images;
    readonly vnc: Vnc;
    readonly info: Info;
    readonly log: Log;
  }

  /**
   * Appends an object to the info of the job (`GET /jobs/:job_uuid/info`): at most 16 KiB, and 1000
   * entries of one execution. By convention, messages for people are `{task, message}`. Names that begin
   * with `zonewright_` are the agent's own.
   */
  type Info = <Entry extends object>(entry: Entry & JsonObject<Entry>) => Promise<null>;

  /** As {@linkcode Json}, without lists. */
  type JsonObject<Value> = Value extends readonly unknown[] ? never : Json<Value>;

  /** Writes to the agent's log, with job and task, and to the info of the job. */
  interface Log {
    debug(message: unknown, fields?: object): Promise<null>;
    info(message: unknown, fields?: object): Promise<null>;
    warn(message: unknown, fields?: object): Promise<null>;
    error(message: unknown, fields?: object): Promise<null>;
  }

  /** Machines of the host. `uuid` is the machine's. */
  interface Vmadm {
    /**
     * Checks a payload against the policy, then by `vmadm validate create`, then whether the host has the
     * networks of its nics and space for its disks.
     */
    validate(payload: MachinePayload): Promise<null>;
    /** Creates the machine; it can be used if `state` is `stopped`. The tag `zonewright_job` names the job. */
    create(payload: MachinePayload & { uuid: string }): Promise<{ uuid: string; state: string }>;
    /** The machine as vmadm describes it, without passwords and internal metadata. */
    get(uuid: string): Promise<Machine | null>;
    /** All machines, with the most important properties of each. */
    list(): Promise<MachineSummary[]>;
    /**
     * Starts it, unless it already runs. bhyve ignores the words. It is checked twice afterwards:
     * if it has died, the call fails with the end of its log.
     */
    boot(uuid: string, words?: BootWords): Promise<null>;
    /** Stops it, unless it is already stopped; waits for one that is already stopping. */
    stop(uuid: string, options?: StopOptions | null): Promise<null>;
    /**
     * Restarts a running machine. A medium given at boot is lost, except for a kvm machine with
     * `force`. A second call restarts it again.
     */
    reboot(uuid: string, options?: RebootOptions | null): Promise<null>;
    /** Changes properties; disks only while the machine is stopped. */
    update(uuid: string, changes: MachineChanges): Promise<null>;
    /**
     * Deletes it with its disks and its zone, or what a failed create of this job left; one
     * that does not exist is no error.
     */
    delete(uuid: string): Promise<null>;
    /** The address where its console listens now; null while it does not. The machine must be running. */
    info(uuid: string, section: "vnc"): Promise<VncAddress | null>;
  }

  /** Installation media. */
  interface Media {
    /**
     * Finds a medium and verifies it: a file in one of the agent's media folders (`path`, or its name
     * alone), a download (`url`), or an artifact of the index.
     */
    find(request: MediaRequest): Promise<Medium>;
    /**
     * Copies a medium that this job has found into the root of the zone and verifies the copy;
     * raises the quota if it would not fit. The machine must be stopped.
     */
    place(uuid: string, medium: Medium): Promise<PlacedMedium>;
    /** Removes a placed file, `/name`. Returns whether it existed. */
    remove(uuid: string, file: string): Promise<boolean>;
  }

  /** The image index that the agent mirrors. */
  interface Images {
    /** What the index says of an artifact. */
    find(artifact: ArtifactRef): Promise<FoundArtifact>;
    /** Downloads and verifies it, so that it is cached for later use. */
    download(artifact: ArtifactRef & MediaChecks & { digest?: string }): Promise<Medium>;
  }

  /** Consoles of machines. */
  interface Vnc {
    /** Waits until a console answers. The port changes with each start of the machine. */
    wait(uuid: string, options?: VncWaitOptions | null): Promise<VncAddress>;
  }

  // ---- Machines ----

  /** The description of a new machine, as vmadm(8) takes it. Other properties are refused. */
  type MachinePayload = KvmPayload | BhyvePayload;

  /** A machine of brand kvm. */
  type KvmPayload = PayloadOfAnyBrand & {
    brand: "kvm";
    /**
     * At most one with `boot`; `ide` among the first four only. With more than three the machine
     * boots from no medium.
     */
    disks?: Disk<"virtio" | "scsi" | "ide">[];
    vga?: "cirrus" | "std" | "vmware" | "qxl" | "xenfb";
    /** The boot order of a start without boot words. */
    boot?:
      | BootOrder
      | `order=${BootOrder}`
      | `order=${BootOrder},once=${"c" | "d" | "n"}`
      | `once=${"c" | "d" | "n"}`;
    cpu_type?: "qemu64" | "host";
    /** Packets of one flush of a virtio nic: 1 to 65535. */
    virtio_txburst?: Whole;
    /** Nanoseconds until a virtio nic flushes: 1 to 1000000000. */
    virtio_txtimer?: Whole;
    bootrom?: never;
  };

  /** A machine of brand bhyve. */
  type BhyvePayload = PayloadOfAnyBrand & {
    brand: "bhyve";
    /** At most one with `boot`. */
    disks?: Disk<"virtio" | "ahci" | "nvme">[];
    /** Without `uefi`, the screen of its console stays empty. */
    bootrom?: "bios" | "uefi";
    vga?: never;
    boot?: never;
    cpu_type?: never;
    virtio_txburst?: never;
    virtio_txtimer?: never;
  };

  /** What machines of both brands have. */
  type PayloadOfAnyBrand = {
    /** In lower case. `vmadm.create()` requires it. */
    uuid?: string;
    /** 1 to 64. */
    vcpus?: Whole;
    /** Memory of the guest, MiB: 1 to 262144. */
    ram?: Whole;
    /** Never true: the machine would start without its medium. */
    autoboot?: false;
    /** IP addresses of name servers, at most 8. */
    resolvers?: string[];
    /** At most 8, one of them primary. */
    nics?: Nic[];
    /** For people: 1 to 189 characters, none of them a control character. */
    alias?: string;
    /** Letters, digits, dashes, underscores and dots. */
    hostname?: string;
    /** Space for the zone's own files, media included, GiB: 1 to 1024. */
    quota?: Whole;
    /** Hundredths of one processor: 1 to 6400. */
    cpu_cap?: Whole;
    /** 1 to 65535. */
    cpu_shares?: Whole;
    /** Memory of the hypervisor and its guest, MiB: 1 to 266240. */
    max_physical_memory?: Whole;
    /** MiB: 1 to 266240, not over `max_physical_memory`. */
    max_locked_memory?: Whole;
    /** MiB: 256 to 266240, not below `max_physical_memory`. */
    max_swap?: Whole;
    /** Threads of the zone: 1 to 100000. */
    max_lwps?: Whole;
    /** The uuid of its owner, for firewall rules and other programs. */
    owner_uuid?: string;
    /** A uuid, for other programs. */
    billing_id?: string;
    /** Whether other programs should ignore it. */
    do_not_inventory?: boolean;
    /** Whether the host's firewall rules apply to it. */
    firewall_enabled?: boolean;
    /** 0 to 1024. */
    zfs_io_priority?: Whole;
    /** Of the zone's own files. */
    zfs_root_compression?: Compression;
    /** Bytes of a block of the zone's own files. */
    zfs_root_recsize?: BlockSize;
    /** Datasets that may be created below the zone's own: 0 to 1000000. */
    zfs_filesystem_limit?: Whole;
    /** Snapshots of the zone's dataset and those below it: 0 to 1000000. */
    zfs_snapshot_limit?: Whole;
    /** True for a random console password, which no task can read. */
    vnc_password?: boolean;
    /** At most 64. The tag `zonewright_job` is the agent's own. */
    tags?: Metadata;
    /** At most 64 entries; the place for the `user-data` of the first boot. */
    customer_metadata?: Metadata;
    routes?: Routes;
  };

  /**
   * Gateways, or nics such as `nics[0]` or `macs[02:08:20:aa:bb:cc]`, by the IPv4 address or network
   * that they lead to; at most 64. Such a nic has an address of its own, not from DHCP.
   */
  type Routes = { [destination: string]: string };

  /** A whole number, or its digits as a string. */
  type Whole = number | `${bigint}`;

  /** A flat object of strings, numbers and booleans. */
  type Metadata = { [key: string]: string | number | boolean };

  /** An empty disk of a new machine. */
  type Disk<Model extends string = DiskModel> = {
    model: Model;
    /** MiB: 1 to 4194304. */
    size: Whole;
    boot?: boolean;
    media?: "disk";
    compression?: Compression;
    /** MiB reserved in the pool, at most `size`. */
    refreservation?: Whole;
    block_size?: BlockSize;
    /** Of bhyve: bytes that the guest sees, or logical and physical ones, such as `512/4096`. */
    guest_block_size?: string;
    /** Of bhyve: the guest cannot give space back. */
    notrim?: boolean;
    /** Of bhyve: `bus:device:function`. */
    pci_slot?: string;
    /** Of bhyve. */
    uuid?: string;
  };

  /** How zfs compresses. */
  type Compression =
    | "off"
    | "on"
    | "lz4"
    | "lzjb"
    | "zle"
    | "gzip"
    | `gzip-${1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9}`;

  /** Bytes. */
  type BlockSize = Digits<512 | 1024 | 2048 | 4096 | 8192 | 16384 | 32768 | 65536 | 131072>;

  /** A number, or its digits as a string. */
  type Digits<Number extends number> = Number | `${Number}`;

  /** Of kvm: virtio, scsi, ide. Of bhyve: virtio, ahci, nvme. */
  type DiskModel = "virtio" | "scsi" | "ide" | "ahci" | "nvme";

  /** A network interface of a new machine. */
  type Nic = {
    /** The network of the host, such as `admin` or `external`. */
    nic_tag: string;
    model: "virtio" | "e1000" | "rtl8139";
    /** An IPv4 address, which needs a `netmask`; `dhcp` or `addrconf`. One of `ips`, if given. */
    ip?: string;
    /** Such as `255.255.255.0`. */
    netmask?: string;
    gateway?: string;
    primary?: boolean | 0 | 1;
    /** Such as `02:08:20:aa:bb:cc`. */
    mac?: string;
    /** 0 to 4095. */
    vlan_id?: Whole;
    /** Addresses with their prefix such as `192.0.2.7/24`, `dhcp`, or `addrconf`; each once, at most 20. */
    ips?: string[];
    /** IPv4 addresses, at most 20. */
    gateways?: string[];
    /** Bytes, 576 to 9000: on a physical network at least 1500, and at most the mtu of its link. */
    mtu?: Whole;
    /** For operators who manage networks elsewhere. */
    network_uuid?: string;
    /** Of kvm: `0x` and hexadecimal bytes; at most 20, of 1023 characters in all. */
    allowed_dhcp_cids?: string[];
    /** At most 64. */
    blocked_outgoing_ports?: Whole[];
  };

  /** Changes to the nic with this `mac`; its `nic_tag` contains no slash. */
  type NicChange = Partial<Nic> & { mac: string };

  /** Properties that have the same meaning and bounds as those of a new machine. */
  type SettingChanges =
    & Pick<
      PayloadOfAnyBrand,
      | "vcpus"
      | "ram"
      | "quota"
      | "alias"
      | "hostname"
      | "resolvers"
      | "owner_uuid"
      | "billing_id"
      | "do_not_inventory"
      | "firewall_enabled"
      | "cpu_cap"
      | "cpu_shares"
      | "max_physical_memory"
      | "max_locked_memory"
      | "max_swap"
      | "max_lwps"
      | "zfs_io_priority"
      | "zfs_root_compression"
      | "zfs_root_recsize"
      | "zfs_filesystem_limit"
      | "zfs_snapshot_limit"
    >
    & Pick<KvmPayload, "boot" | "cpu_type" | "vga" | "virtio_txburst" | "virtio_txtimer">
    & Pick<BhyvePayload, "bootrom">;

  /** What `vmadm.update()` takes. Other properties are refused. */
  type MachineChanges = SettingChanges & {
    /** Whether the machine starts with the host. */
    autoboot?: boolean;
    set_tags?: Metadata;
    remove_tags?: string[];
    set_customer_metadata?: Metadata;
    remove_customer_metadata?: string[];
    set_routes?: Routes;
    /** Their destinations. */
    remove_routes?: string[];
    /** The machine may then have at most 8. They take effect at its next boot. */
    add_nics?: Nic[];
    update_nics?: NicChange[];
    /** Their MAC addresses. */
    remove_nics?: string[];
    /** Placed media to attach, at most 4; a bhyve machine can only boot from a medium this way. */
    add_disks?: AttachedMedium[];
    /** Paths of media to detach, at most 4. */
    remove_disks?: string[];
  };

  /** A placed medium as a disk of its machine. */
  type AttachedMedium = {
    /** `/name`, as `media.place()` returns it. */
    path: string;
    media: "cdrom";
    model: DiskModel;
  };

  /** Options for one boot of a kvm machine. */
  type BootWords = {
    /** c is the disk, d the CD, n the network; tried from left to right. */
    order?: BootOrder;
    /** Tried first, before `order`. */
    once?: "c" | "d" | "n";
    /** `/name` of a placed ISO image. */
    cdrom?: string;
    /** `/name` of a placed image of a disk. */
    disk?: string;
    /** Seconds between the two checks, 0 to 60; 1 by default, 0 for a single check. */
    watch?: number;
  };

  /** Letters of c, d and n, each at most once. */
  type BootOrder =
    | "c"
    | "d"
    | "n"
    | "cd"
    | "cn"
    | "dc"
    | "dn"
    | "nc"
    | "nd"
    | "cdn"
    | "cnd"
    | "dcn"
    | "dnc"
    | "ncd"
    | "ndc";

  /** How a machine is stopped. */
  type StopOptions = {
    /** At once, without asking the guest. */
    force?: boolean;
    /** Seconds that the guest has to power off, 1 to 180; not together with `force`. */
    timeout?: number;
  };

  /** How a machine is restarted. */
  type RebootOptions = {
    /** At once, without asking the guest. */
    force?: boolean;
  };

  /** The states that vmadm shows; there may be others. */
  type MachineState =
    | "configured"
    | "incomplete"
    | "provisioning"
    | "stopped"
    | "ready"
    | "running"
    | "stopping"
    | "shutting_down"
    | "failed"
    | (string & Record<never, never>);

  /** A machine in `vmadm.list()`. Properties unknown to vmadm are missing. */
  type MachineSummary = {
    uuid: string;
    brand: string;
    state: MachineState;
    /** Folder of its zone. */
    zonepath: string;
    /** Of its zone, such as `running` or `installed`. */
    zone_state?: string;
    alias?: string;
    /** MiB. */
    ram?: number;
    vcpus?: number;
    /** GiB. */
    quota?: number;
    autoboot?: boolean;
  };

  /** A machine as vmadm describes it, with all other properties of vmadm(8). */
  type Machine = MachineSummary & {
    hostname?: string;
    /** `zonewright_job` is the job that made it. */
    tags?: Metadata;
    customer_metadata?: Metadata;
    resolvers?: string[];
    disks?: MachineDisk[];
    nics?: MachineNic[];
    [property: string]: any;
  };

  /** A disk of a machine. */
  type MachineDisk = {
    /** The device of a disk; `/name` of a medium. */
    path: string;
    model: string;
    media: "disk" | "cdrom";
    boot?: boolean;
    /** MiB. */
    size?: number;
    [property: string]: any;
  };

  /** A network interface of a machine. */
  type MachineNic = {
    nic_tag: string;
    model: string;
    mac: string;
    interface: string;
    ip?: string;
    ips?: string[];
    primary?: boolean;
    [property: string]: any;
  };

  /** Where a VNC client connects to. */
  type VncAddress = {
    /** Of the host. */
    host: string;
    port: number;
    /** `port` minus 5900, if vmadm reports it. */
    display?: number;
  };

  /** How long to wait for a console. */
  type VncWaitOptions = {
    /** Seconds: above 0, at most 600; 120 by default. */
    timeout?: number;
  };

  // ---- Media and images ----

  /**
   * Names a medium in exactly one way. A `digest` is `sha256:<64 hex digits>` or
   * `sha512:<128 hex digits>`. Names of media end in `.iso` (a CD), `.img` or `.raw` (a disk).
   */
  type MediaRequest =
    /** A file in one of the agent's media folders: an absolute path, or its name alone. */
    | (AnyFormat & {
      path: string;
      digest?: string;
      url?: never;
      artifact?: never;
      known?: never;
    })
    /** A download. A URL proves nothing about the bytes, so the digest is required. */
    | (AnyFormat & MediaChecks & {
      url: string;
      digest: string;
      /** How the file is compressed. */
      compression?: "none" | "gzip" | "xz" | "zstd" | "bzip2";
      path?: never;
      artifact?: never;
      known?: never;
    })
    /** A download that may be unverified. */
    | (AnyFormat & {
      url: string;
      allow_unverified: true;
      check?: CheckLevel;
      digest?: string;
      compression?: "none" | "gzip" | "xz" | "zstd" | "bzip2";
      path?: never;
      artifact?: never;
      known?: never;
    })
    /** An artifact of the index. */
    | (AnyFormat & MediaChecks & {
      artifact: ArtifactRef;
      digest?: string;
      path?: never;
      url?: never;
      known?: never;
    })
    /** A file that the agent already has, as `sha256:<64 hex digits>`. */
    | (AnyFormat & { known: string; digest?: never; path?: never; url?: never; artifact?: never });

  /** Whether to accept a format that no machine boots, such as qcow2. */
  type AnyFormat = { any_format?: boolean };

  /** How far the origin of a file was verified; docs/media.md explains the levels. */
  type CheckLevel = "none" | "index" | "vendor" | "signature";

  /** How a download has to be checked. */
  type MediaChecks = {
    /** The level to reach; by default, the agent's minimum. */
    check?: CheckLevel;
    /** Accepts it even below that level. */
    allow_unverified?: boolean;
  };

  /** Names one artifact of the image index. */
  type ArtifactRef = {
    distro: string;
    /** A release, or one of its aliases such as `latest`. */
    release: string;
    /** The newest one by default. */
    build?: string;
    /** By default, the one that the vendor marks as default. */
    variant?: string;
    /** `x86_64` by default. */
    arch?: string;
    /** Such as `iso`, `raw` or `qcow2`. */
    format?: string;
  };

  /** A verified file of the agent. Only the agent can create one: `media.place()` recognizes its own. */
  type Medium = {
    source: "path" | "url" | "artifact";
    /** On the agent's own host. */
    path: string;
    /** Its name in a zone. */
    name: string;
    /** Bytes. */
    size: number;
    /** Lower-case hex. */
    sha256: string;
    /** For people. */
    label: string;
    level: CheckLevel;
  };

  /** A medium in the root of a zone. */
  type PlacedMedium = {
    /** `/name`, as the hypervisor sees it. */
    file: string;
    /** Bytes. */
    size: number;
    /** Lower-case hex. */
    sha256: string;
  };

  /** An artifact with its place in the index. */
  type FoundArtifact = {
    distro: string;
    /** The release's id, with aliases resolved. */
    release: string;
    build: string;
    artifact: Artifact;
    /** The name of its file in a zone. */
    name: string;
    /** For people. */
    label: string;
  };

  /** One downloadable file, as its vendor describes it. */
  type Artifact = {
    arch: string;
    /** Once decompressed: `iso`, `raw`, `qcow2` and others. */
    format: string;
    /** `none`, `gzip`, `xz`, `zstd`, `bzip2` and others. */
    compression: string;
    locations: {
      url: string;
      kind: "primary" | "vault" | "mirror" | null;
      redirects_off_host: boolean | null;
    }[];
    variant: string | null;
    default_variant: boolean | null;
    /** Bytes as downloaded. */
    size: number | null;
    firmware: ("bios" | "uefi")[];
    datasources: string[];
    ssh_key_injection: boolean | null;
    integrity: {
      digests: {
        algorithm: "sha256" | "sha512";
        /** Lower-case hex. */
        value: string;
        source: { format: string; url: string; filename: string | null } | null;
      }[];
      http: { etag: string | null; last_modified: string | null } | null;
      signatures: { kind: string; signs: string; url: string; key_url: string | null }[];
    } | null;
  };
}

/** Machines of the host. */
declare const vmadm: Zonewright.Capabilities["vmadm"];
/** Installation media. */
declare const media: Zonewright.Capabilities["media"];
/** The image index that the agent mirrors. */
declare const images: Zonewright.Capabilities["images"];
/** Consoles of machines. */
declare const vnc: Zonewright.Capabilities["vnc"];
/** Appends an object to the info of the job. */
declare const info: Zonewright.Capabilities["info"];
/** Writes to the agent's log and to the info of the job. */
declare const log: Zonewright.Capabilities["log"];

/** Waits this many milliseconds. */
declare function sleep(ms: number): Promise<void>;
/** Calls back once, after this many milliseconds. @returns what `clearTimeout()` takes */
declare function setTimeout<Args extends any[]>(
  callback: (...args: Args) => unknown,
  delayMs?: number,
  ...args: Args
): number;
/** Cancels a timer. */
declare function clearTimeout(timer?: number): void;

/** Writes to the agent's log and to the info of the job: a format with `%s`, `%d` and so on, and values. */
interface Console {
  /** At level debug. */
  trace(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  /** At level info. */
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}
declare var console: Console;
