// The limits that apply unless they are configured, as the HTTP room takes them.

import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import type { HttpLimits } from "../../src/http/limits.ts";

export const DEFAULT_HTTP_LIMITS: HttpLimits = { ...DEFAULT_LIMITS, callbackHosts: [] };

/** For calls whose limit a test does not look at. */
export const NO_LIMIT = Number.MAX_SAFE_INTEGER;
