// Where the parts of an installed agent lie, for each of the two service managers.

/** The service managers that an agent can be installed for. */
export const SERVICE_MANAGERS = ["systemd", "smf"] as const;
/** One of them. */
export type ServiceManager = typeof SERVICE_MANAGERS[number];

/** Absolute paths of an installed agent. */
export interface ServicePaths {
  readonly binary: string;
  readonly config: string;
  /** What the service manager reads. */
  readonly definition: string;
  /** Database, cache, lock. */
  readonly stateDir: string;
  readonly socket: string;
}

/**
 * The file system hierarchy of Linux, and what is kept over a reboot of a SmartOS global zone, where
 * every boot recreates `/etc` and `/usr` and `/opt/custom/smf` is imported.
 * @see smartos: "Persistent services", hier(7)
 */
export const SERVICE_PATHS: Readonly<Record<ServiceManager, ServicePaths>> = {
  systemd: {
    binary: "/usr/local/bin/zonewright",
    config: "/etc/zonewright/zonewright.toml",
    definition: "/etc/systemd/system/zonewright.service",
    stateDir: "/var/lib/zonewright",
    socket: "/run/zonewright/zonewright.sock",
  },
  smf: {
    binary: "/opt/custom/bin/zonewright",
    config: "/opt/custom/etc/zonewright/zonewright.toml",
    definition: "/opt/custom/smf/zonewright.xml",
    stateDir: "/opt/custom/zonewright",
    socket: "/var/run/zonewright.sock",
  },
};

/** The service's name for `systemctl` and `svcadm`. */
export const SERVICE_NAME: Readonly<Record<ServiceManager, string>> = {
  systemd: "zonewright.service",
  smf: "svc:/application/zonewright:default",
};
