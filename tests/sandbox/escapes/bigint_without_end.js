// deno-lint-ignore-file
// ends: timeout
(() => {
  let number = 3n;
  for (;;) number = BigInt.asUintN(1_000_000, number * number + 1n);
});
