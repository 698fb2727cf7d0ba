// The decoders of the agent, and the user that they and the guests run as.

import type { BareGround, Ground } from "./runner.ts";
import { openDecoders } from "../decoder/pool.ts";
import { openSourceChecks } from "../decoder/source_checks.ts";
import type { Meters } from "../metrics/meters.ts";
import { findGuestUser } from "../sandbox/user.ts";

/**
 * Adds to a ground the decoders and their user. No decoder is started yet.
 * @param meters where their work is counted, if anywhere
 * @throws {AgentError} as findGuestUser()
 */
export async function withDecoders(
  ground: BareGround,
  meters?: Pick<Meters, "decoders" | "now">,
): Promise<Ground> {
  const { config, self, log, opened } = ground;
  const place = { self, os: Deno.build.os, root: Deno.uid() === 0, log };
  const user = await findGuestUser(config.guest_user.value, place);
  const shared = user === undefined ? {} : { user };
  const decoders = openDecoders({
    self,
    log,
    slots: config.slots.value,
    ...shared,
    ...(meters === undefined ? {} : { counts: meters.decoders }),
  });
  if (meters !== undefined) meters.now.decoders = () => decoders.pids().length;
  opened("decoders", () => decoders.close());
  return { ...ground, decoders, sources: openSourceChecks(decoders), ...shared };
}
