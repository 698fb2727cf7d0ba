// Reads the configuration again at runtime: which settings changed, which apply at once, and which
// wait for a restart.

import type { Config, Setting } from "../config/settings.ts";

/** Name of a setting; a table such as the limits counts as one. */
export type SettingName = keyof Config;

/** Result of a new configuration. */
export interface ReloadReport {
  /** Settings whose new value is in effect. */
  readonly applied: readonly SettingName[];
  /** Changed settings that keep their old value until a restart. */
  readonly waiting: readonly SettingName[];
}

/** Applies a new configuration to parts that can change at runtime. */
export interface Reloads {
  /** Registers the settings that a part follows. */
  follow(names: readonly SettingName[], apply: (config: Config) => void | Promise<void>): void;
  /** Applies all changes; an error of one part is thrown after the other parts had theirs. */
  reload(next: Config): Promise<ReloadReport>;
}

/** @param first the configuration that the parts were started with */
export function openReloads(first: Config): Reloads {
  const parts: {
    names: readonly SettingName[];
    apply: (config: Config) => void | Promise<void>;
  }[] = [];
  /** The values in effect: a waiting setting keeps its old one. */
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

/** Compares by value; the origin of a value does not matter. A table of settings counts as one. */
function valueText(setting: object): string {
  if ("origin" in setting && "value" in setting) return JSON.stringify(setting.value);
  return JSON.stringify(
    Object.entries(setting).map(([name, one]: [string, Setting<unknown>]) => [name, one.value]),
  );
}
