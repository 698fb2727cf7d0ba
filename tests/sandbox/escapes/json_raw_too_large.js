// deno-lint-ignore-file
// ends: failure /RangeError: Cannot record the result: it has a number that is too large/
// JSON for a number that nothing can hold: the agent must not record another value in its place.
((job, cb) => cb(null, { size: JSON.rawJSON("1e400") }));
