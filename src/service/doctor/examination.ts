// Assembles the doctor's checks for a configuration, and checks the managed host. It wires the parts as the agent
// does, but starts nothing that could disturb a running agent.

import { join } from "@std/path";
import { openTransport } from "../../agent/host.ts";
import { agentLimits, type EarlyParts } from "../../agent/shared_parts.ts";
import { sharedConditionReader } from "../../agent/store.ts";
import type { Config } from "../../config/settings.ts";
import { readSecretFile } from "../../state_dir/secret_file.ts";
import { DATABASE_NAME, mayBeStateDir } from "../../state_dir/state_dir.ts";
import { agentCheck, auditFileCheck, indexTokenCheck, tlsCheck, tokensCheck } from "./access.ts";
import { type HealthCheck, type HealthFinding, ok, skipped } from "./check.ts";
import {
  configFileCheck,
  diskCheck,
  keysCheck,
  mediaFoldersCheck,
  stateFolderCheck,
  statOf,
} from "./folders.ts";
import { decodersCheck, guestsCheck } from "../../agent/walls.ts";
import { openMemoryBudget } from "../../domain/memory_budget.ts";
import { type MachineUuid, randomUuid } from "../../domain/id.ts";
import { systemNow } from "../../domain/instant.ts";
import { JOB_TAG } from "../../domain/policy.ts";
import { messageOf } from "../../domain/error.ts";
import { isLoopback } from "../../domain/ip_address.ts";
import { selfCommand } from "../../runtime/executable.ts";
import { openVmadm, type Vmadm } from "../../host/vmadm/vmadm.ts";
import { readTlsIdentity } from "../../http/listen/listener.ts";
import { silentLog } from "../../metrics/log.ts";
import { systemFreeBytes } from "../../mirror/media/disk.ts";
import { type ActAs, asOwnerOf, examineOwnFolder } from "../../state_dir/own_file.ts";
import { readTokenFile, tokenFilePath } from "../../state_dir/token_file.ts";
import { readExecutions, readLeft } from "../../store/sqlite/database_file.ts";
import { clockCheck, indexCheck, sharedStoreChecks, storeCheck } from "./databases.ts";
import { isJsonObject } from "../../domain/json.ts";
import type { Transport } from "../../host/transport.ts";
import { mapLimited } from "../../runtime/run.ts";

/** The checks of one host, and how to close what they opened. */
interface Examination {
  readonly checks: readonly HealthCheck[];
  close(): Promise<void>;
}

interface NamedConfig {
  readonly path: string;
  /** Whether the user gave the path; otherwise the file may be missing. */
  readonly named: boolean;
}

/** The part that would power off the machines of a running agent, see openTransport(). */
const NOT_OURS_TO_CLOSE = "simulated host";

/**
 * Opens the checks for a configuration.
 * @throws {AgentError} as openTransport()
 */
export function openExamination(config: Config, file: NamedConfig): Examination {
  const closers: (() => void | Promise<void>)[] = [];
  const self = selfCommand();
  const limits = agentLimits(config);
  const context: EarlyParts = {
    config,
    limits,
    self,
    log: silentLog,
    now: systemNow,
    newUuid: randomUuid,
    budget: openMemoryBudget(),
    follow: () => {},
    opened: (name, close) => void (name === NOT_OURS_TO_CLOSE || closers.push(close)),
  };
  const walls = {
    self,
    user: config.guest_user.value,
    freshRealm: config.fresh_realm.value,
    limits,
    log: silentLog,
  };
  const stateDir = config.state_dir.value;
  const asOwner = asOwnerOf(stateDir);
  const inFolder = (check: HealthCheck) => checkedAsOwner(check, stateDir, asOwner);
  const database = join(stateDir, DATABASE_NAME);
  const transport = openTransport(context, stateDir);
  const vmadm = openVmadm(transport);
  return {
    checks: [
      configFileCheck(file.path, file.named),
      inFolder(stateFolderCheck(stateDir, mayBeStateDir)),
      diskCheck(stateDir, systemFreeBytes),
      inFolder(storeCheck(database)),
      inFolder(clockCheck(database, systemNow)),
      ...sharedStoreChecks(sharedConditionReader(config)),
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
      mediaFoldersCheck(config.media_dir.value),
      keysCheck(config.key_dir.value),
      inFolder(indexCheck(database, {
        upstream: config.index.value ?? (config.dev.value ? "the sample index" : null),
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
 * Runs a check of the state folder. No file there is opened that is not what it should be, and root looks and repairs
 * as the folder's owner.
 */
function checkedAsOwner(check: HealthCheck, stateDir: string, asOwner: ActAs): HealthCheck {
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

/** The checks of tokens, certificate and audit file. */
function accessChecks(
  config: Config,
  inFolder: (check: HealthCheck) => HealthCheck,
): readonly HealthCheck[] {
  const listen = config.listen.value;
  const beyond = listen !== null && !isLoopback(listen.hostname);
  // An agent that listens on every address is reached by a name.
  const own = beyond && !["0.0.0.0", "::"].includes(listen.hostname) ? [listen.hostname] : [];
  return [
    inFolder(tokensCheck({
      path: tokenFilePath(config.state_dir.value),
      needed: beyond || config.require_token.value,
      read: readTokenFile,
    })),
    tlsCheck({
      certPath: config.tls_cert.value,
      keyPath: config.tls_key.value,
      hosts: [...own, ...config.allow_host.value],
      now: systemNow,
      prove: readTlsIdentity,
    }),
    auditFileCheck(config.audit_file.value),
    indexTokenCheck({ path: config.index_token_file.value, read: readSecretFile }),
  ];
}

/** Most machines examined one by one. */
const MACHINES_MAX = 500;
const MACHINES_AT_A_TIME = 4;

/** Whether the program that makes machines answers. */
function vmadmCheck(transport: Transport, vmadm: Vmadm, program: string): HealthCheck {
  return {
    name: "vmadm",
    about: "vmadm is there and answers",
    async examine() {
      if (transport.kind === "local" && await statOf(program) === undefined) {
        return {
          outcome: "fail",
          detail: `${program} is missing: this is not a global zone of SmartOS`,
          fix: "run it there, or manage one with --host ssh://root@host",
        };
      }
      try {
        const machines = await vmadm.list();
        return ok(`${transport.kind}: ${machines.length} machines`);
      } catch (error) {
        // Reads go through vminfod, consoles and graceful stops of kvm machines through vmadmd.
        if (!/ECONNREFUSED/.test(messageOf(error))) throw error;
        const fix = "on the host: svcs -xv vminfod vmadmd, svcadm clear or restart";
        return { outcome: "fail", detail: messageOf(error), fix };
      }
    },
  };
}

/** The folder below which every zone lies. */
function zonesCheck(transport: Transport): HealthCheck {
  return {
    name: "zones",
    about: "the folder of the zones is there",
    async examine() {
      const { kind, zonesRoot } = transport;
      if (kind === "ssh") return skipped(`${zonesRoot} is on another machine`);
      const found = await statOf(zonesRoot);
      if (found?.isDirectory) return ok(zonesRoot);
      if (kind === "simulated") return ok(`${zonesRoot} is made with the first machine`);
      return {
        outcome: "fail",
        detail: `${zonesRoot} is not a folder`,
        fix: "name it with --zones",
      };
    },
  };
}

/**
 * Machines and datasets of failed or canceled jobs, whose undo did not succeed.
 * @param asOwner reads the database as its owner; vmadm runs as this process
 */
export function leftoversCheck(vmadm: Vmadm, database: string, asOwner: ActAs): HealthCheck {
  return {
    name: "leftovers",
    about: "failed jobs left nothing on the host",
    async examine(): Promise<HealthFinding> {
      if (await statOf(database) === undefined) return skipped("no job was ever made");
      // Why it does not answer, its own check says.
      const machines = await vmadm.list().catch(() => undefined);
      if (machines === undefined) return skipped("vmadm does not answer");
      const listed = machines.slice(0, MACHINES_MAX);
      const owners = new Map<string, string>();
      await mapLimited(listed, MACHINES_AT_A_TIME, async ({ uuid }) => {
        if (typeof uuid !== "string") return;
        const machine = await vmadm.get(uuid as MachineUuid);
        const job = isJsonObject(machine?.tags) ? machine.tags[JOB_TAG] : undefined;
        if (typeof job === "string") owners.set(uuid, job);
      });
      const executions = await asOwner(() => readExecutions(database, [...owners.values()]));
      const left = [...owners].filter(([, job]) =>
        ["failed", "canceled"].includes(executions.get(job) ?? "")
      );
      const named = new Map(
        left.map(([uuid, job]) => [uuid, `job ${job}: ${executions.get(job)}`]),
      );
      // Some may have left only datasets, which vmadm does not show.
      const pending = await asOwner(() => readLeft(database));
      for (const { uuid, job_uuid, execution } of pending) {
        named.set(uuid, `job ${job_uuid}: ${execution}`);
      }
      if (named.size === 0) return ok(`${owners.size} machines of the agent`);
      const list = [...named].map(([uuid, job]) => `${uuid} (${job})`).join(", ");
      const fix = pending.length > 0
        ? "the agent tries again: zonewright machine leftovers"
        : `zonewright machine delete ${left[0]?.[0]}`;
      return { outcome: "warn", detail: `left over: ${list}`, fix };
    },
  };
}
