// node-workflow (npm wf) with its backend in memory: its REST interface and its runner in one
// process, over the same backend. A second port reports how many jobs have ended, so that
// nothing is asked of the first while it is measured.
//
// Prints one JSON line with the two addresses, and runs until its standard input ends.

import { Buffer } from "node:buffer";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { readOrder } from "./harness.mjs";

const order = readOrder();
const require = createRequire(join(order.packages, "package.json"));
const wf = require("wf");
const logger = () => ({ streams: [{ level: "fatal", stream: process.stderr }] });

/** Both faces make a backend by this module: they are given the same one. */
function shareBackend() {
  const path = require.resolve("wf/lib/workflow-in-memory-backend");
  const backend = require(path)({ logger: logger() });
  require.cache[path].exports = () => backend;
  return { path, backend };
}

async function freePort() {
  const server = createTcpServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

const { path, backend } = shareBackend();
const counts = { queued: 0, failed: 0 };
const { createJob, finishJob } = backend;
backend.createJob = (job, ...rest) => {
  counts.queued += 1;
  return createJob(job, ...rest);
};
backend.finishJob = (job, ...rest) => {
  const callback = rest.pop();
  return finishJob(job, ...rest, (error, ended) => {
    if (ended) counts.queued -= 1;
    if (ended?.execution === "failed") counts.failed += 1;
    callback(error, ended);
  });
};

const port = await freePort();
const api = wf.API({
  backend: { module: path, opts: {} },
  api: { port },
  logger: logger(),
});
const runner = wf.Runner({
  backend: { module: path, opts: {} },
  runner: { identifier: randomUUID(), ...order.runner },
  logger: logger(),
});
// Left to itself it would listen on every address of the machine.
const { listen } = api.server;
api.server.listen = (where, listening) => listen.call(api.server, where, "127.0.0.1", listening);
await new Promise((resolve) => api.init(resolve));
await new Promise((resolve, reject) =>
  runner.init((error) => error ? reject(error) : resolve(undefined))
);
runner.run();

const watch = createServer((_request, response) => {
  const text = JSON.stringify({ current: counts });
  response.writeHead(200, { "content-length": Buffer.byteLength(text) });
  response.end(text);
}).listen(0, "127.0.0.1");
await once(watch, "listening");

console.log(JSON.stringify({
  url: `http://127.0.0.1:${port}`,
  watch_url: `http://127.0.0.1:${watch.address().port}`,
}));

process.stdin.resume();
await once(process.stdin, "end");
process.exit(0);
