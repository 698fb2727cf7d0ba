// Reading the configuration again while the agent runs: which settings have changed, which parts take
// the new value at once, and which wait for a restart.

import type { Config, Setting } from "../config/settings.ts";

/** A setting by its name in the configuration; a table such as the limits counts as one. */
export type SettingName = keyof Config;

/** What came of a new configuration. */
export interface ReloadReport {
  /** Settings whose new value holds now. */
  readonly applied: readonly SettingName[];
  /** Settings that have changed and are as before until the agent starts again. */
  readonly waiting: readonly SettingName[];
}

/** Takes a new configuration into the parts that can change while they work. */
export interface Reloads {
  /** Registers the settings that a part follows, and how. */
  follow(names: readonly SettingName[], apply: (config: Config) => void | Promise<void>): void;
  /** Applies what has changed. Throws what a part throws, after the other parts have the new values. */
  reload(next: Config): Promise<ReloadReport>;
}

/** Opens the register of parts. */
export function openReloads(first: Config): Reloads {
  const parts: {
    names: readonly SettingName[];
    apply: (config: Config) => void | Promise<void>;
  }[] = [];
  /** What holds now: a setting that waits stays as it was. */
  let present: Config = first;
  return {
    follow: (names, apply) => parts.push({ names, apply }),
    async reload(next) {
      const changed = changedSettings(present, next);
      const applied = changed.filter((name) => parts.some((part) => part.names.includes(name)));
      const failures: unknown[] = [];
      for (const { names, apply } of parts) {
        if (!names.some((name) => changed.includes(name))) continue;
        await Promise.resolve(apply(next)).catch((error: unknown) => failures.push(error));
      }
      const taken = Object.fromEntries(applied.map((name) => [name, next[name]]));
      present = { ...present, ...taken };
      if (failures.length > 0) throw failures[0];
      return { applied, waiting: changed.filter((name) => !applied.includes(name)) };
    },
  };
}

function changedSettings(before: Config, after: Config): SettingName[] {
  const names = Object.keys(after) as SettingName[];
  return names.filter((name) => valueText(before[name]) !== valueText(after[name]));
}

/** By value: where a value comes from makes no difference. A table of settings counts as one. */
function valueText(setting: object): string {
  if ("origin" in setting && "value" in setting) return JSON.stringify(setting.value);
  return JSON.stringify(
    Object.entries(setting).map(([name, one]: [string, Setting<unknown>]) => [name, one.value]),
  );
}
