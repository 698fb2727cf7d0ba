// The entry of every program of zonewright. Each is imported only when it is asked for: a guest must
// start in milliseconds and must not even load the code of the agent.

const [program, ...rest] = Deno.args;

switch (program) {
  case "guest": {
    const { runGuest } = await import("./src/guest/guest.ts");
    await runGuest(rest);
    break;
  }
  case "decoder": {
    const { runDecoder } = await import("./src/decoder/decoder.ts");
    await runDecoder();
    break;
  }
  case "simulate": {
    const { simulate } = await import("./src/simulator/simulate.ts");
    Deno.exit(await simulate(rest));
    break;
  }
  default: {
    const { runCli } = await import("./src/cli/cli.ts");
    const code = await runCli(Deno.args);
    if (code !== 0) Deno.exit(code);
  }
}
