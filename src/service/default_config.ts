// The configuration file of a new installation: it sets what differs from the defaults and shows what
// most hosts will want to set.

import type { ServiceManager, ServicePaths } from "./paths.ts";

/** The text of `zonewright.toml`; an existing file is never replaced by it. */
export function defaultConfig(manager: ServiceManager, { socket, stateDir }: ServicePaths): string {
  const host = manager === "smf"
    ? '# host = "local"               # this global zone'
    : `# host = "ssh://root@smartos"    # the global zone that this agent manages; see docs/ssh.md
# ssh_identity = "/etc/zonewright/id_ed25519"         # the unit hides the folders of users
# ssh_known_hosts = "/etc/zonewright/known_hosts"`;
  return `# zonewright: every setting, its default and its meaning: zonewright serve --help
# After a change: zonewright config check, and reload or restart the service.

state_dir = ${JSON.stringify(stateDir)}
socket = ${JSON.stringify(socket)}
listen = "127.0.0.1:8780"
${host}
# index = "https://images.example.org"
# media_dir = ["/zones/iso"]

[limits]
`;
}
