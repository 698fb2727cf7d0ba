// Puts the doctor's checks together for a configuration. It wires rooms as the agent does, and starts
// nothing that would be in a running agent's way.

import { join } from "@std/path";
import { openTransport } from "../../agent/host.ts";
import type { BareGround } from "../../agent/runner.ts";
import type { Config } from "../../config/config.ts";
import { DATABASE_NAME, mayBeStateDir } from "../../state/state_dir.ts";
import { auditFileCheck, secretCheck, tlsCheck, tokensCheck } from "./access.ts";
import { agentCheck, clockCheck, indexCheck, storeCheck } from "./agent.ts";
import type { Check } from "./check.ts";
import { leftoversCheck, vmadmCheck, zonesCheck } from "./host.ts";
import {
  configFileCheck,
  diskCheck,
  keysCheck,
  mediaFoldersCheck,
  stateFolderCheck,
  statOf,
} from "./place.ts";
import { decodersCheck, guestsCheck } from "./walls.ts";
import { openMemoryBudget } from "../../domain/memory_budget.ts";
import { randomUuid } from "../../domain/id.ts";
import { systemNow } from "../../domain/instant.ts";
import { isLoopback } from "../../domain/ip_address.ts";
import { selfCommand } from "../../program/executable.ts";
import { openVmadm } from "../../host/vmadm/vmadm.ts";
import { readTlsIdentity } from "../../http/listen/tls.ts";
import { silentLog } from "../../metrics/log.ts";
import { systemFreeBytes } from "../../mirror/media/free_space.ts";
import { type ActAs, asOwnerOf, examineOwnFolder } from "../../state/own_file.ts";
import { readSecretFile } from "../../state/secret_file.ts";
import { readTokenFile, tokenFilePath } from "../../state/token_file.ts";

/** The checks of one host, and what takes down what they opened. */
export interface Examination {
  readonly checks: readonly Check[];
  close(): Promise<void>;
}

/** Where the configuration was read from. */
export interface ConfigFile {
  readonly path: string;
  /** Whether somebody named it; otherwise it need not be there. */
  readonly named: boolean;
}

/** What `openTransport` registers for the simulated host powers off the machines of a running agent. */
const NOT_OURS_TO_CLOSE = "simulated host";

/**
 * Opens the checks for a configuration.
 * @throws {AgentError} as openTransport()
 */
export function openExamination(config: Config, file: ConfigFile): Examination {
  const closers: (() => void | Promise<void>)[] = [];
  const self = selfCommand();
  const ground: BareGround = {
    config,
    self,
    log: silentLog,
    now: systemNow,
    newUuid: randomUuid,
    budget: openMemoryBudget(),
    follow: () => {},
    opened: (name, close) => void (name === NOT_OURS_TO_CLOSE || closers.push(close)),
  };
  const walls = { self, user: config.guest_user.value, log: silentLog };
  const stateDir = config.state_dir.value;
  const asOwner = asOwnerOf(stateDir);
  const inFolder = (check: Check) => checkedAsOwner(check, stateDir, asOwner);
  const database = join(stateDir, DATABASE_NAME);
  const transport = openTransport(ground, stateDir);
  const vmadm = openVmadm(transport);
  return {
    checks: [
      configFileCheck(file.path, file.named),
      inFolder(stateFolderCheck(stateDir, mayBeStateDir)),
      diskCheck(stateDir, systemFreeBytes),
      inFolder(storeCheck(database)),
      inFolder(clockCheck(database, systemNow)),
      ...accessChecks(config, inFolder),
      agentCheck({
        tcp: config.listen.value,
        socket: config.socket.value,
        tlsCert: config.tls_cert.value,
      }),
      guestsCheck(walls),
      decodersCheck(walls),
      vmadmCheck(transport, vmadm, config.vmadm.value),
      zonesCheck(transport),
      mediaFoldersCheck(config.media_dirs.value),
      keysCheck(config.key_dir.value),
      inFolder(indexCheck(database, {
        upstream: config.index.value,
        intervalSeconds: config.index_interval.value,
        now: systemNow,
      })),
      leftoversCheck(vmadm, database, asOwner),
    ],
    close: async () => {
      for (const close of closers.reverse()) await close();
    },
  };
}

/**
 * A check of what is in the state folder: nothing there is opened that is not what it must be, and root
 * looks, and repairs, as the folder's owner.
 */
function checkedAsOwner(check: Check, stateDir: string, asOwner: ActAs): Check {
  return {
    ...check,
    examine: () =>
      asOwner(async () => {
        if ((await statOf(stateDir))?.isDirectory) examineOwnFolder(stateDir);
        const { repair, ...found } = await check.examine();
        return repair === undefined ? found : { ...found, repair: () => asOwner(repair) };
      }),
  };
}

/** What is looked at of who may call. */
function accessChecks(config: Config, inFolder: (check: Check) => Check): readonly Check[] {
  const listen = config.listen.value;
  const beyond = listen !== null && !isLoopback(listen.hostname);
  // Callers of an address that stands for all come by a name.
  const own = beyond && !["0.0.0.0", "::"].includes(listen.hostname) ? [listen.hostname] : [];
  return [
    inFolder(tokensCheck({
      path: tokenFilePath(config.state_dir.value),
      wanted: beyond || config.require_token.value,
      read: readTokenFile,
    })),
    tlsCheck({
      certPath: config.tls_cert.value,
      keyPath: config.tls_key.value,
      hosts: [...own, ...config.allowed_hosts.value],
      now: systemNow,
      prove: readTlsIdentity,
    }),
    auditFileCheck(config.audit_file.value),
    secretCheck("index-token", { path: config.index_token_file.value, read: readSecretFile }),
  ];
}
