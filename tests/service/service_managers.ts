// What systemd and SMF answer to the programs that an installation runs, with the state that follows
// from them: neither runs where the tests do. Their words are those of the programs.

import { basename, join } from "@std/path";
import { type Run, SERVICE_NAME, SERVICE_PATHS } from "../../src/service/manager.ts";

/** A program's end; `undefined` for one that did its work in silence. */
type Answer = { readonly code: number; readonly stdout?: string; readonly stderr?: string };

/** A service as SMF has it. */
interface SmfService {
  /** undefined: never imported. */
  state?: "disabled" | "online" | undefined;
  starts: number;
  /** The program that lacks the rights. */
  refusing?: string;
}

/** A service as systemd has it. */
interface SystemdService {
  enabled: boolean;
  running: boolean;
  /** The file that systemd has it from, when that is not ours. */
  fragment?: string;
}

const DONE: Answer = { code: 0 };

/** @param root below which the manifest lies */
export function smf(
  root: string,
): { manager: "smf"; run: Run; asked: string[]; service: SmfService } {
  const service: SmfService = { starts: 0 };
  const start = () => {
    if (service.state !== "online") service.starts += 1;
    service.state = "online";
  };
  const answer = async (program: string, args: readonly string[]): Promise<Answer> => {
    if (program === service.refusing) {
      return { code: 1, stderr: `first\n${program}: no permission\n` };
    }
    const absent = `${program}: Pattern '${args.at(-1)}' doesn't match any instances\n`;
    switch ([program, args[0]].join(" ")) {
      case "svccfg validate":
        return DONE;
      case "svccfg import": {
        const text = await Deno.readTextFile(join(root, args[1] ?? ""));
        const enabled = /create_default_instance enabled="true"/.test(text);
        if (enabled) start();
        else service.state = "disabled";
        return DONE;
      }
    }
    if (service.state === undefined) return { code: 1, stderr: absent };
    switch ([program, args[0]].join(" ")) {
      case "svcs -H":
        return { code: 0, stdout: `${service.state}\n` };
      case "svcadm disable":
        service.state = "disabled";
        return DONE;
      case "svcadm enable":
        start();
        return DONE;
      case "svccfg delete":
        if (service.state !== "disabled") return { code: 1, stderr: "svccfg: in use\n" };
        service.state = undefined;
        return DONE;
    }
    return { code: 2, stderr: `${program}: unknown command\n` };
  };
  return { manager: "smf", service, ...recorded(answer) };
}

/** @param root below which the unit lies */
export function systemd(
  root: string,
): { manager: "systemd"; run: Run; asked: string[]; service: SystemdService } {
  const service: SystemdService = { enabled: false, running: false };
  const { definition } = SERVICE_PATHS.systemd;
  const hasUnit = () => Deno.lstat(join(root, definition)).then(() => true, () => false);
  const answer = async (program: string, args: readonly string[]): Promise<Answer> => {
    if (program === "id" || program === "getent") {
      return args.at(-1) === "zw" ? DONE : { code: 2, stderr: `${program}: no such name\n` };
    }
    if (program === "chown" || args[0] === "daemon-reload") return DONE;
    const here = await hasUnit();
    switch (args[0]) {
      case "show": {
        const loaded = here || service.running || service.fragment !== undefined;
        const fragment = service.fragment ?? (loaded ? definition : "");
        const active = service.running ? "active" : "inactive";
        const state = loaded ? "loaded" : "not-found";
        const lines = [`LoadState=${state}`, `ActiveState=${active}`, `FragmentPath=${fragment}`];
        return { code: 0, stdout: `${lines.join("\n")}\n` };
      }
      case "stop":
        service.running = false;
        return DONE;
    }
    if (!here) {
      const stderr = `Failed: Unit file ${SERVICE_NAME.systemd} does not exist.\n`;
      return { code: 1, stderr };
    }
    if (args[0] === "restart") service.running = true;
    else service.enabled = args[0] === "enable";
    if (args.includes("--now")) service.running = false;
    return DONE;
  };
  return { manager: "systemd", service, ...recorded(answer) };
}

function recorded(
  answer: (program: string, args: readonly string[]) => Promise<Answer>,
): { run: Run; asked: string[] } {
  const asked: string[] = [];
  const run: Run = async (program, args) => {
    asked.push([basename(program), ...args].join(" "));
    const { code, stdout = "", stderr = "" } = await answer(basename(program), args);
    return { code, stdout, stderr, signal: null, durationMs: 0 };
  };
  return { run, asked };
}
