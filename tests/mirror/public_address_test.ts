import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import {
  isPublicAddress,
  parseRemote,
  requirePublic,
  systemResolve,
} from "../../src/mirror/web/allowed_hosts.ts";
import { ask } from "../../src/mirror/web/request.ts";
import { openDeadline } from "../../src/mirror/web/time_limits.ts";

const PRIVATE = [
  "0.0.0.0",
  "10.255.0.1",
  "100.64.0.1",
  "100.127.255.255",
  "127.0.0.1",
  "127.255.255.255",
  "169.254.169.254",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.1",
  "192.168.0.1",
  "198.19.255.255",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::127.0.0.1",
  "::ffff:10.0.0.1",
  "::ffff:7f00:1",
  "64:ff9b::7f00:1",
  "64:ff9b:1:a00:0:100:101:101",
  "2002:7f00:1::",
  "2001::1",
  "fc00::1",
  "fd12:3456::1",
  "fe80::1",
  "fe80::1%eth0",
  "fec0::1",
  "ff02::1",
  "localhost",
  "",
];

const PUBLIC = [
  "1.1.1.1",
  "9.255.255.255",
  "11.0.0.1",
  "100.63.255.255",
  "100.128.0.1",
  "172.15.0.1",
  "172.32.0.1",
  "192.0.2.1",
  "198.17.0.1",
  "198.20.0.1",
  "223.255.255.255",
  "2a00:1450::1",
  "2606:4700:4700::1111",
  "::ffff:1.1.1.1",
  "2002:101:101::1",
  "64:ff9b::101:101",
];

Deno.test("isPublicAddress() is false for addresses of networks that are not public", () => {
  for (const address of PRIVATE) assert(!isPublicAddress(address), address);
  for (const address of PUBLIC) assert(isPublicAddress(address), address);
});

Deno.test("requirePublic() refuses a name when any of its addresses is not public", async () => {
  const resolve = () => Promise.resolve(["1.1.1.1", "::1"]);
  const url = new URL("https://example.com/");
  const refused = () => requirePublic(url, { allowHttp: false, namedHosts: [], resolve });
  assertEquals((await assertRejects(refused, AgentError)).code, "upstream");
  await requirePublic(url, {
    allowHttp: false,
    namedHosts: [],
    resolve: () => Promise.resolve(["1.1.1.1"]),
  });
  const named = { allowHttp: true, namedHosts: ["127.0.0.1:8080"], resolve };
  await requirePublic(new URL("http://127.0.0.1:8080/"), named);
  // The port belongs to the name, and plain http names nobody.
  const other = () => requirePublic(new URL("http://127.0.0.1/"), named);
  await assertRejects(other, AgentError, "is not public");
});

Deno.test("requirePublic() refuses this host by its name", async () => {
  assertEquals((await systemResolve("localhost")).includes("127.0.0.1"), true);
  const local = new URL("https://localhost/");
  const refused = () =>
    requirePublic(local, { allowHttp: false, namedHosts: [], resolve: systemResolve });
  await assertRejects(refused, AgentError, "is not public");
});

Deno.test("parseRemote() resolves a redirect and refuses other schemes and user names", () => {
  const base = new URL("https://example.com/a/b");
  assertEquals(parseRemote("../c", { allowHttp: false }, base).href, "https://example.com/c");
  const refused = [
    "http://example.com/",
    "//user@example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "data:,x",
    "https://",
  ];
  for (const address of refused) {
    assertThrows(() => parseRemote(address, { allowHttp: false }, base), AgentError);
  }
  assertThrows(() => parseRemote("file:///etc/passwd", { allowHttp: true }), AgentError);
});

Deno.test("parseRemote() repeats no password and no query of an address that it refuses", () => {
  const refused = [
    "http://cdn.example/disk.raw?signature=hunter2",
    "ftp://me:hunter2@cdn.example/disk.raw",
    "ftp:me:hunter2@cdn.example/disk.raw",
    "https://me:hun/ter2@cdn.example/disk.raw",
    "https://me:hunter2@cdn.example/disk.raw",
  ];
  for (const address of refused) {
    const error = assertThrows(() => parseRemote(address, { allowHttp: false }), AgentError);
    assert(!/hun.?ter2/.test(error.message), error.message);
    assertStringIncludes(error.message, "cdn.example");
  }
});

Deno.test("a server that cannot be reached is named without the query of the address", async () => {
  // The words of the compiled runtime; others leave the address out.
  const fetch: typeof globalThis.fetch = (input) =>
    Promise.reject(new TypeError(`error sending request for url (${input}): no route`));
  const reach = { allowHttp: false, namedHosts: [], resolve: systemResolve };
  const web = { fetch, reach, userAgent: "test", tokenFor: () => Promise.resolve(undefined) };
  const deadline = openDeadline(60_000, "read the file");
  const asked = ask(web, "https://cdn.example/disk.raw?signature=hunter2", {
    headers: {},
    deadline,
    trustedHost: "cdn.example",
  });
  const { message } = await assertRejects(() => asked, AgentError).finally(deadline.clear);
  assertEquals(
    message,
    "Cannot read https://cdn.example/disk.raw: error sending request: no route",
  );
});
