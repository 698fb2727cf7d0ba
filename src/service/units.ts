// The unit that systemd reads. The agent tells systemd itself when it is ready and that it is alive
// (service_notice.ts), and systemd takes from it whatever it does not need.

import type { ServicePaths } from "./paths.ts";

/** Seconds without a sign of life after which systemd starts the agent again. */
export const WATCHDOG_SECONDS = 30;
/** More than the agent gives its tasks and callers when it stops. */
const STOP_SECONDS = 60;

/**
 * Capabilities and namespaces that an agent which is root keeps: it starts guests and decoders under
 * another user and ends them, gives its socket to a group, and makes the namespaces in which they have no
 * network, which the kernel counts to the administration of the system. The filter of system calls leaves
 * little else of that: no mounts, no modules, no tracing. The files it reads and writes are root's.
 * @see capabilities(7)
 */
const OF_ROOT = [
  "CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_KILL CAP_CHOWN CAP_SYS_ADMIN",
  "net ipc uts",
];
/**
 * Of one that is not root: none. It could make the namespaces of guests only within one of users, and so
 * could a guest that broke out, which would be root in there. So guests share the networks of the host.
 */
const OF_A_USER = ["", "yes"];

/** What holds whoever the agent is; MemoryDenyWriteExecute stays off, since V8 makes code. */
const HARDENING = `NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateMounts=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=default
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@obsolete @swap @reboot @raw-io @cpu-emulation @debug @module @mount @clock
SystemCallErrorNumber=EPERM
`;

/** How the unit is written. */
export interface UnitOptions {
  readonly paths: ServicePaths;
  /** Runs as this user instead of root; guests then run as it too. */
  readonly user?: string;
}

/**
 * The text of `zonewright.service`.
 * @see systemd.service(5), systemd.exec(5)
 */
export function systemdUnit({ paths, user }: UnitOptions): string {
  const [capabilities, namespaces] = user === undefined ? OF_ROOT : OF_A_USER;
  return `# Written by zonewright install systemd. Changes belong into a drop-in (systemctl edit zonewright).
[Unit]
Description=zonewright host agent
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=60
StartLimitBurst=10

[Service]
Type=notify
NotifyAccess=main
ExecStart=${paths.binary} serve --config ${paths.config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=1
WatchdogSec=${WATCHDOG_SECONDS}
TimeoutStartSec=60
TimeoutStopSec=${STOP_SECONDS}
KillMode=mixed
${user === undefined ? "" : `User=${user}\nGroup=${user}\n`}UMask=0077
StateDirectory=zonewright
StateDirectoryMode=0700
RuntimeDirectory=zonewright
RuntimeDirectoryMode=0755
ConfigurationDirectory=zonewright
LogsDirectory=zonewright
LogsDirectoryMode=0700
WorkingDirectory=/
LimitNOFILE=65536

CapabilityBoundingSet=${capabilities}
AmbientCapabilities=
RestrictNamespaces=${namespaces}
${HARDENING}
[Install]
WantedBy=multi-user.target
`;
}
