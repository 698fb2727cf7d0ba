// deno-lint-ignore-file
// ends: failure /returned without calling cb, and nothing of it is pending/
(async () => ({
  then(resolve, reject) {
    resolve(1);
    reject(new Error("second"));
    resolve(2);
    throw new Error("third");
  },
}));
