// deno-lint-ignore-file
// ends: failure /GuestLost: Task "prepare" was lost: its process made too many calls/
// frozen: failure /Cannot redefine property: size/
(async () => {
  Object.defineProperty(Map.prototype, "size", { get: () => 0 });
  await Promise.all(Array.from({ length: 40 }, () => vnc.wait("never")));
});
