// What the service managers read. The unit of systemd, which the agent notifies that it is ready and alive
// (notice.ts), takes from it every privilege that it does not need. In the manifest of SMF the agent stays in the
// foreground, as the child that SMF watches.

import { OTHER_SCHEMA_EXIT } from "../domain/error.ts";
import type { ServicePaths } from "./manager.ts";

/** Seconds without a notice of the agent after which systemd starts the agent again. */
const WATCHDOG_SECONDS = 30;
/** More than the agent gives its tasks and callers when it stops. */
const STOP_SECONDS = 60;

/**
 * Capabilities and namespaces that a root agent keeps. It starts guests and decoders as another user and ends them,
 * gives its socket to a group, and creates the namespaces in which guests have no network, which takes the capability
 * of system administration. The system call filter leaves little else of that: no mounts, modules or tracing. The
 * files that it reads and writes are root's.
 * @see capabilities(7)
 */
const OF_ROOT = [
  "CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_KILL CAP_CHOWN CAP_SYS_ADMIN",
  "net ipc uts",
];
/**
 * An agent of another user keeps none. It could create guests' namespaces only inside a user namespace, and so could
 * a guest that broke out, which would then be root in there. So its guests share the networks of the host.
 */
const OF_A_USER = ["", "yes"];

/** For any user. MemoryDenyWriteExecute stays off, since V8 generates code. */
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

interface UnitOptions {
  readonly paths: ServicePaths;
  /** User to run as instead of root; guests run as it too. */
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
RestartPreventExitStatus=${OTHER_SCHEMA_EXIT}
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

/** Seconds for a stop: more than the agent gives its tasks and callers. */
const SMF_STOP_SECONDS = 60;
const START_SECONDS = 60;
const REFRESH_SECONDS = 10;

/**
 * The text of `zonewright.xml`, with the elements in the order of the DTD.
 * @param enabled whether the agent starts when the manifest is imported, as at every boot of a SmartOS global zone
 * @param runtime what runs the program, with its options; empty for a binary
 * @see service_bundle(5), smf_method(7); vmadmd, which answers for running machines, is only waited for
 */
export function smfManifest(
  paths: ServicePaths,
  { enabled, runtime }: { readonly enabled: boolean; readonly runtime: readonly string[] },
): string {
  const words = [...runtime, paths.binary, "serve", "--config", paths.config];
  const start = words.map(smfWord).join(" ");
  return `<?xml version="1.0"?>
<!DOCTYPE service_bundle SYSTEM "/usr/share/lib/xml/dtd/service_bundle.dtd.1">
<!-- Written by zonewright install smf. -->
<service_bundle type="manifest" name="zonewright">
  <service name="application/zonewright" type="service" version="1">
    <create_default_instance enabled="${enabled}"/>
    <single_instance/>
    <dependency name="filesystem" grouping="require_all" restart_on="none" type="service">
      <service_fmri value="svc:/system/filesystem/local:default"/>
    </dependency>
    <dependency name="network" grouping="require_all" restart_on="none" type="service">
      <service_fmri value="svc:/milestone/network:default"/>
    </dependency>
    <dependency name="vmadmd" grouping="optional_all" restart_on="none" type="service">
      <service_fmri value="svc:/system/smartdc/vmadmd:default"/>
    </dependency>
    <exec_method type="method" name="start" exec="${xml(start)}" timeout_seconds="${START_SECONDS}">
      <method_context working_directory="/">
        <method_credential user="root" group="root"/>
      </method_context>
    </exec_method>
    <exec_method type="method" name="stop" exec=":kill" timeout_seconds="${SMF_STOP_SECONDS}"/>
    <exec_method type="method" name="refresh" exec=":kill -HUP" timeout_seconds="${REFRESH_SECONDS}"/>
    <property_group name="startd" type="framework">
      <propval name="duration" type="astring" value="child"/>
      <propval name="ignore_error" type="astring" value="core,signal"/>
    </property_group>
    <stability value="Evolving"/>
    <template>
      <common_name>
        <loctext xml:lang="C">zonewright host agent</loctext>
      </common_name>
    </template>
  </service>
</service_bundle>
`;
}

/** Words without a meaning of their own to a shell and to SMF. */
const PLAIN_WORD = /^[A-Za-z0-9_\/.,:=+@-]+$/;

/** A word of a method: SMF replaces tokens that begin with `%`, then a shell parses the line. */
function smfWord(word: string): string {
  const shown = word.replaceAll("%", "%%");
  return PLAIN_WORD.test(shown) ? shown : `'${shown.replaceAll("'", "'\\''")}'`;
}

function xml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
