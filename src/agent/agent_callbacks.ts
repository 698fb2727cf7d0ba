// The telling of callbacks, as the configuration allows it.

import type { Ground } from "./runner.ts";
import { type Callbacks, openCallbacks } from "../runner/callbacks.ts";
import type { Store } from "../store/store.ts";
import { VERSION } from "../program/version.ts";

/** Starts to tell those who asked for it that their job is final. */
export function openAgentCallbacks(
  { config, now, log, opened, budget }: Ground,
  store: Store,
): Pick<Callbacks, "wake"> {
  const hosts = config.callback_hosts.value;
  const callbacks = openCallbacks({
    store,
    hosts,
    wording: config.compat.value,
    fetch,
    userAgent: `zonewright/${VERSION}`,
    now,
    log,
    budget,
  });
  opened("callbacks", () => callbacks.stop());
  // Without a host that may be called there is nothing to hurry for.
  return { wake: hosts.length === 0 ? () => {} : () => callbacks.wake() };
}
