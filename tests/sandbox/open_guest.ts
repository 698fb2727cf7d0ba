// A guest whose platform does not let it give up the permission that its first argument names. The
// pool adds `guest` and the path of the socket to the arguments.

import { runGuest } from "../../src/guest/guest.ts";

const [left, , ...rest] = Deno.args;
const { revokeSync } = Deno.permissions;
Deno.permissions.revokeSync = (permission) =>
  permission.name === left
    ? Deno.permissions.querySync(permission)
    : revokeSync.call(Deno.permissions, permission);
await runGuest(rest);
