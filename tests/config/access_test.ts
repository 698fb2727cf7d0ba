import { assertEquals, assertThrows } from "@std/assert";
import { type FlagValue, readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";

function problems(flags: Record<string, FlagValue>): string[] {
  const sources = { flags, env: {}, cwd: "/", os: "linux" };
  const { errors } = assertThrows(() => readConfig(sources), AgentError);
  return errors.map(({ field }) => field);
}

function read(flags: Record<string, FlagValue>) {
  return readConfig({ flags, env: {}, cwd: "/", os: "linux" });
}

const TLS = { "tls-cert": "/c", "tls-key": "/k" };

Deno.test("readConfig() requires a certificate and its key together, and both beyond loopback", () => {
  assertEquals(problems({ "tls-cert": "/c" }), ["tls_cert"]);
  assertEquals(problems({ "tls-key": "/k" }), ["tls_key"]);
  assertEquals(problems({ listen: "0.0.0.0:1", "tls-key": "/k" }), ["listen"]);
  const { listen } = read({ listen: "[2001:db8::1]:1", ...TLS });
  assertEquals(listen.value, { hostname: "2001:db8::1", port: 1 });
});

Deno.test("readConfig() refuses a mode that lets everybody open the socket, without tokens", () => {
  assertEquals(problems({ "socket-mode": "0666" }), ["socket_mode"]);
  assertEquals(problems({ "socket-mode": "0604" }), ["socket_mode"]);
  assertEquals(read({ "socket-mode": "0666", "require-token": true }).socket_mode.value, "0666");
  assertEquals(read({ "socket-mode": "660" }).socket_mode.value, "0660");
  for (const mode of ["0777", "0200", "rw", "432", "00660"]) {
    assertEquals([mode, problems({ "socket-mode": mode })], [mode, ["socket_mode"]]);
  }
});

Deno.test("readConfig() refuses a mode that is a number: TOML's octal digits would be lost", () => {
  const readToml = (text: string) =>
    readConfig({ flags: {}, env: {}, file: { path: "/z.toml", text }, cwd: "/", os: "linux" });
  for (const mode of ["660", "0o660", "0o1224"]) {
    const refused = assertThrows(() => readToml(`socket_mode = ${mode}`), AgentError);
    assertEquals(refused.errors.map(({ field }) => field), ["socket_mode"]);
  }
  assertEquals(readToml("socket_group = 12").socket_group.value, "12");
});

Deno.test("readConfig() requires TLS for the token of an index, and no secret in its address", () => {
  const token = { "index-token-file": "/t" };
  assertEquals(problems(token), ["index_token_file"]);
  assertEquals(problems({ ...token, index: "/srv/index" }), ["index_token_file"]);
  assertEquals(
    problems({ ...token, index: "http://images.example", "allow-http-index": true }),
    ["index_token_file"],
  );
  assertEquals(read({ ...token, index: "https://images.example" }).index_token_file.value, "/t");
  for (const user of ["user:hush", ":hush", "hush"]) {
    const flags = { index: `https://${user}@images.example` };
    const sources = { flags, env: {}, cwd: "/", os: "linux" };
    const { errors } = assertThrows(() => readConfig(sources), AgentError);
    assertEquals(errors.map(({ field }) => field), ["index"]);
    assertEquals(errors.some(({ message }) => message.includes("hush")), false);
  }
});

Deno.test("readConfig() takes a group by name or number", () => {
  assertEquals(read({ "socket-group": "staff" }).socket_group.value, "staff");
  assertEquals(read({ "socket-group": "50" }).socket_group.value, "50");
  assertEquals(problems({ "socket-group": "a b" }), ["socket_group"]);
});
