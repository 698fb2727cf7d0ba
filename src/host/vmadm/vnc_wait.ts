// Waits until the VNC console of a machine is usable. vmadm reports a port before a console answers there, and
// chooses another at each start of the machine or of its own daemon, so it is asked again before every attempt.

import { abortedError, AgentError, messageOf } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import { waitOrAbort } from "../abort.ts";
import { BANNER_MS, type VncAddress, type VncConnection } from "./vnc.ts";

/** What is asked while a console is waited for: see Vmadm. */
interface ConsoleHost {
  infoVnc(uuid: MachineUuid, o: { signal: AbortSignal }): Promise<VncAddress | null>;
  endOfLog(uuid: MachineUuid, o: { signal?: AbortSignal }): Promise<string>;
  connectVnc(
    address: VncAddress,
    o: { bannerMs: number; signal: AbortSignal },
  ): Promise<VncConnection>;
}

/** Milliseconds between two calls of vmadm; each starts an interpreter on the host. */
const POLL_MS = 1_000;

/**
 * Waits until vmadm names a console address and an RFB server answers there.
 * @param o `deadlineMs`: how long to wait in all; `pollMs`: pause between attempts; `bannerMs`: how long one
 * connection may take to send its banner
 * @throws {AgentError} `timeout` saying what was seen last; `aborted`; `not_found` when there is no such
 * machine; `conflict` when it is not running, with the end of its log
 */
export async function waitForVnc(
  vmadm: ConsoleHost,
  uuid: MachineUuid,
  o: { deadlineMs: number; pollMs?: number; bannerMs?: number; signal?: AbortSignal },
): Promise<VncAddress> {
  const action = `Cannot reach the VNC console of machine ${uuid}`;
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), o.deadlineMs);
  const either = AbortSignal.any([deadline.signal, ...(o.signal === undefined ? [] : [o.signal])]);
  let seen: string | undefined;
  try {
    // Ends with an answer, or when a signal makes a wait throw.
    while (true) {
      const attempt = await attemptVnc(vmadm, uuid, o.bannerMs ?? BANNER_MS, either);
      if (attempt.kind === "answered") return attempt.address;
      // An attempt cut short by the deadline has seen less than the one before it.
      if (seen === undefined || !either.aborted) seen = attempt.seen;
      await waitOrAbort(action, o.pollMs ?? POLL_MS, either);
    }
  } catch (cause) {
    if (o.signal?.aborted) throw abortedError(action, o.signal);
    if (!deadline.signal.aborted) throw await withLog(vmadm, uuid, cause, o.signal);
    const words = seen ?? "vmadm has not answered";
    const message = `${action}: no answer within ${o.deadlineMs / 1000} s, last seen: ${words}`;
    throw new AgentError("timeout", message, { cause });
  } finally {
    clearTimeout(timer);
  }
}

/** Adds the log of a machine that ended while its console was waited for. */
async function withLog(
  vmadm: ConsoleHost,
  uuid: MachineUuid,
  cause: unknown,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  if (!(cause instanceof AgentError) || cause.code !== "conflict") return cause;
  const log = await vmadm.endOfLog(uuid, signal === undefined ? {} : { signal });
  return new AgentError("conflict", `${cause.message}; ${log}`, { cause });
}

type BannerRead =
  | { readonly kind: "answered"; readonly address: VncAddress }
  | { readonly kind: "not_yet"; readonly seen: string };

async function attemptVnc(
  vmadm: ConsoleHost,
  uuid: MachineUuid,
  bannerMs: number,
  signal: AbortSignal,
): Promise<BannerRead> {
  let address: VncAddress | null;
  try {
    address = await vmadm.infoVnc(uuid, { signal });
  } catch (error) {
    // The daemon is restarting, or an answer was cut short: the console may still come.
    const passing = error instanceof AgentError &&
      (error.code === "host" || error.code === "timeout");
    if (!passing) throw error;
    return { kind: "not_yet", seen: error.message };
  }
  if (address === null) return { kind: "not_yet", seen: "vmadm reports no address" };
  const silence = await silenceOf(vmadm, address, bannerMs, signal);
  if (silence === null) return { kind: "answered", address };
  return { kind: "not_yet", seen: silence };
}

/** Why the server does not count as a console; null if it sent its banner. */
async function silenceOf(
  vmadm: ConsoleHost,
  address: VncAddress,
  bannerMs: number,
  signal: AbortSignal,
): Promise<string | null> {
  try {
    (await vmadm.connectVnc(address, { bannerMs, signal })).close();
    return null;
  } catch (error) {
    return messageOf(error);
  }
}
