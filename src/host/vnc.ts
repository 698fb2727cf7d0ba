// Waits until the VNC console of a machine can be used. vmadm names a port before anybody answers
// there: its relay accepts a connection and then stays silent while qemu's socket is missing. So
// only a server that introduces itself counts, and vmadm is asked again before every attempt, since
// each start of the machine or of vmadm's daemon moves the port.

import { AgentError, messageOf } from "../domain/error.ts";
import type { MachineUuid } from "../domain/id.ts";
import { abortedError, pause } from "./abort.ts";
import type { Vmadm, VncAddress } from "./vmadm.ts";

/** How often vmadm is asked; each call starts an interpreter on the host. */
const POLL_MS = 1_000;

/** How long one connection may take to be made and to bring the banner. */
const BANNER_MS = 5_000;

/** Begins the first twelve bytes of every RFB server (RFC 6143, section 7.1.1). */
const BANNER = "RFB 003.";

/**
 * Waits until vmadm names a console address and an RFB server answers there.
 * @param o `deadlineMs`: how long to wait in all; `pollMs`: pause between attempts; `bannerMs`:
 * how long one connection may take to bring the banner
 * @throws {AgentError} `timeout` naming what was seen last; `aborted`; `not_found` when there is no
 * such machine; `conflict` when it is not running
 */
export async function waitForVnc(
  vmadm: Vmadm,
  uuid: MachineUuid,
  o: { deadlineMs: number; pollMs?: number; bannerMs?: number; signal?: AbortSignal },
): Promise<VncAddress> {
  const action = `Cannot reach the VNC console of machine ${uuid}`;
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), o.deadlineMs);
  const either = AbortSignal.any([deadline.signal, ...(o.signal === undefined ? [] : [o.signal])]);
  let seen = "vmadm has not answered";
  try {
    // Ends with an answer, or when either signal makes one of its waits throw.
    while (true) {
      const attempt = await attemptVnc(vmadm, uuid, o.bannerMs ?? BANNER_MS, either);
      if (attempt.kind === "answered") return attempt.address;
      seen = attempt.seen;
      await pause(action, o.pollMs ?? POLL_MS, either);
    }
  } catch (cause) {
    if (o.signal?.aborted) throw abortedError(action, o.signal);
    if (!deadline.signal.aborted) throw cause;
    const message = `${action}: no answer within ${o.deadlineMs / 1000} s, last seen: ${seen}`;
    throw new AgentError("timeout", message, { cause });
  } finally {
    clearTimeout(timer);
  }
}

type Attempt =
  | { readonly kind: "answered"; readonly address: VncAddress }
  | { readonly kind: "not_yet"; readonly seen: string };

async function attemptVnc(
  vmadm: Vmadm,
  uuid: MachineUuid,
  bannerMs: number,
  signal: AbortSignal,
): Promise<Attempt> {
  let address: VncAddress | null;
  try {
    address = await vmadm.infoVnc(uuid, { signal });
  } catch (error) {
    // A daemon that restarts, or an answer that was cut: neither is the end of the console.
    const passing = error instanceof AgentError &&
      (error.code === "host" || error.code === "timeout");
    if (!passing) throw error;
    return { kind: "not_yet", seen: error.message };
  }
  if (address === null) return { kind: "not_yet", seen: "vmadm names no address" };
  const silence = await silenceOf(address, bannerMs, signal);
  if (silence === null) return { kind: "answered", address };
  return { kind: "not_yet", seen: `${address.host}:${address.port} ${silence}` };
}

/** Why the server there does not count as a console, or null when it has introduced itself. */
async function silenceOf(
  address: VncAddress,
  bannerMs: number,
  signal: AbortSignal,
): Promise<string | null> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), bannerMs);
  try {
    return await probe(address, AbortSignal.any([signal, limit.signal]));
  } catch (error) {
    if (limit.signal.aborted) return `did not introduce itself within ${bannerMs / 1000} s`;
    if (signal.aborted) return "has not introduced itself yet";
    return `cannot be reached: ${messageOf(error)}`;
  } finally {
    clearTimeout(timer);
  }
}

async function probe(address: VncAddress, signal: AbortSignal): Promise<string | null> {
  const { host: hostname, port } = address;
  const connection = await Deno.connect({ hostname, port, signal });
  const cut = Promise.withResolvers<never>();
  const onAbort = () => cut.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const reading = readBanner(connection);
  try {
    // A listener that closes or sends something else is no console; one that is silent is cut.
    return await Promise.race([reading, cut.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    connection.close();
    await reading.catch(() => {});
  }
}

async function readBanner(connection: Deno.Conn): Promise<string | null> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(BANNER.length);
  let text = "";
  while (text.length < BANNER.length) {
    const bytes = await connection.read(buffer.subarray(0, BANNER.length - text.length));
    if (bytes === null) return "closed the connection";
    text += decoder.decode(buffer.subarray(0, bytes), { stream: true });
    if (!BANNER.startsWith(text)) return `is no RFB server: it sent ${JSON.stringify(text)}`;
  }
  return null;
}
