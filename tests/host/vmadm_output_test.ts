// Reading vmadm's texts, as recorded and as broken as they may come.

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import type { CommandResult } from "../../src/host/program.ts";
import {
  describeResult,
  masked,
  messageOfOutput,
  secretsOf,
} from "../../src/host/program_output.ts";
import {
  codeOf,
  createdUuid,
  isDone,
  parseMachine,
  parseMachines,
  parseValidation,
  parseVnc,
  stateBeforeStop,
  withoutSecrets,
} from "../../src/host/vmadm/output.ts";
import { RECORDED_UUID, recording } from "./recording.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");
const OTHER_UUID = parseUuid<MachineUuid>("11111111-2222-3333-4444-555555555555", "uuid");

function result(parts: Partial<CommandResult>): CommandResult {
  return { code: 0, signal: null, stdout: "", stderr: "", durationMs: 1, ...parts };
}

function refusal(run: () => unknown, text: string): AgentError {
  const error = assertThrows(run, AgentError, text);
  assertEquals(error.code, "host");
  return error;
}

Deno.test("createdUuid() finds the uuid on standard error", () => {
  assertEquals(createdUuid(result({ stderr: recording("create_success.txt") })), RECORDED_UUID);
});

Deno.test("createdUuid() ignores log lines", () => {
  const stderr = recording("create_success_with_log.txt");
  assertEquals(createdUuid(result({ stderr })), RECORDED_UUID);
});

Deno.test("createdUuid() finds the message on standard output too", () => {
  assertEquals(createdUuid(result({ stdout: recording("create_success.txt") })), RECORDED_UUID);
});

Deno.test("createdUuid() is null without the message", () => {
  assertEquals(createdUuid(result({})), null);
  assertEquals(createdUuid(result({ stderr: `VM with UUID ${UUID} already exists\n` })), null);
  assertEquals(createdUuid(result({ stderr: `Not Successfully created VM ${UUID}\n` })), null);
});

Deno.test("isDone() requires the whole message about this machine, and exit code 0", () => {
  const stderr = `warning\nSuccessfully started VM ${UUID}\n`;
  assert(isDone(result({ stderr }), "boot", UUID));
  assert(!isDone(result({ stderr, code: 1 }), "boot", UUID));
  assert(!isDone(result({ stderr }), "stop", UUID));
  assert(!isDone(result({ stderr: `Not ${stderr}` }), "boot", OTHER_UUID));
  assert(!isDone(result({ stderr: `${stderr.trim()} x\n` }), "boot", UUID));
});

Deno.test("stateBeforeStop() reads the state with either exit code, and with its prefix", () => {
  const sentence = `VM ${UUID} is already not 'running' (currently: stopping)`;
  assertEquals(stateBeforeStop(result({ stderr: `${sentence}\n` }), UUID), "stopping");
  const forced = result({ code: 1, stderr: `first of 1 error: ${sentence}\n` });
  assertEquals(stateBeforeStop(forced, UUID), "stopping");
  assertEquals(stateBeforeStop(result({ stderr: `No ${sentence}\n` }), UUID), null);
  assertEquals(stateBeforeStop(result({ stderr: sentence }), OTHER_UUID), null);
});

Deno.test("codeOf() recognizes failures by their messages, with and without a prefix", () => {
  const texts = [
    [`VM with UUID ${UUID} already exists`, "already_exists"],
    ["Command failed: cannot create 'zones/x': dataset already exists\n", "already_exists"],
    ["Conflict detected with another vm, please check the MAC, IP, and VRID", "conflict"],
    [
      `Unable to start VM ${UUID}: Cannot start vm from state "running", must be "stopped".`,
      "conflict",
    ],
    ["Command failed: cannot create 'zones/x': out of space\n", "storage_full"],
    ["anything else", "host"],
  ] as const;
  for (const [text, code] of texts) {
    assertEquals(codeOf(result({ code: 1, stderr: `${text}\n` })), code);
    assertEquals(codeOf(result({ code: 1, stderr: `first of 2 errors: ${text}\n` })), code);
    assertEquals(codeOf(result({ code: 0, stderr: `${text}\n` })), "host");
  }
});

Deno.test("messageOfOutput() leaves log lines out and keeps other lines with braces", () => {
  const stderr = recording("create_success_with_log.txt") +
    'missing .model option for disk: {"size":10}\n';
  assertEquals(
    messageOfOutput(stderr),
    `Successfully created VM ${UUID}\nmissing .model option for disk: {"size":10}`,
  );
});

Deno.test("parseVnc() reads the address by name, in whatever order it is printed", () => {
  const host = "10.99.99.7";
  assertEquals(parseVnc(recording("info_vnc.json")), { host, port: 39409, display: 33509 });
  assertEquals(
    parseVnc(recording("info_vnc_display_first.json")),
    { host, port: 45465, display: 39565 },
  );
});

Deno.test("parseVnc() keeps the password, by its name", () => {
  const console = parseVnc(recording("info_vnc_password.json"));
  const { password, ...address } = console ?? {};
  assertEquals(address, { host: "10.99.99.7", port: 39409, display: 33509 });
  assertEquals(password, JSON.parse(recording("info_vnc_password.json")).vnc.password);
});

Deno.test("parseVnc() accepts a port without a display", () => {
  assertEquals(parseVnc(recording("info_vnc_low_port.json")), { host: "10.99.99.7", port: 5000 });
});

Deno.test("parseVnc() is null while there is no listener", () => {
  assertEquals(parseVnc(recording("info_vnc_empty.json")), null);
});

Deno.test("parseVnc() refuses anything but an address", () => {
  const wrong: [string, string][] = [
    ["", "expected JSON, vmadm wrote nothing"],
    ["hello", "expected JSON, vmadm wrote hello"],
    [recording("info_vnc.json").slice(0, 40), "expected JSON"],
    ["null", 'expected an object with "vnc"'],
    ["[]", 'expected an object with "vnc"'],
    ['{"vnc": []}', 'expected an object with "vnc"'],
    ['{"spice": {}}', 'expected an object with "vnc"'],
    ['{"vnc": {"host": "10.0.0.1"}}', "expected a port"],
    ['{"vnc": {"host": "10.0.0.1", "port": "5901"}}', "expected a port"],
    ['{"vnc": {"host": "10.0.0.1", "port": 0}}', "expected a port"],
    ['{"vnc": {"host": "10.0.0.1", "port": 22}}', "expected a port from 1024"],
    ['{"vnc": {"host": "10.0.0.1", "port": 65536}}', "expected a port"],
    ['{"vnc": {"host": "10.0.0.1", "port": 5901.5}}', "expected a port"],
    ['{"vnc": {"port": 5901}}', "expected a host"],
    ['{"vnc": {"host": "", "port": 5901}}', "expected a host"],
    ['{"vnc": {"host": "a b", "port": 5901}}', "expected a host"],
    ['{"vnc": {"host": 7, "port": 5901}}', "expected a host"],
  ];
  for (const [text, message] of wrong) refusal(() => parseVnc(text), message);
});

Deno.test("parseVnc() shows no password in its error", () => {
  const text = recording("info_vnc_password.json");
  for (const broken of [text.slice(0, -4), text.slice(0, text.indexOf("pass1234") + 6)]) {
    const error = refusal(() => parseVnc(broken), "expected JSON");
    assertStringIncludes(error.message, '"***"');
    assert(!error.message.includes("pass1"));
  }
});

Deno.test("parseMachine() returns the machine, and null for an empty array", () => {
  assertEquals(parseMachine(recording("lookup_one.json"), UUID)?.state, "stopped");
  assertEquals(parseMachine("[]\n", UUID), null);
});

Deno.test("parseMachine() refuses an answer about another machine", () => {
  const other = recording("lookup_one.json").replace(RECORDED_UUID, OTHER_UUID);
  refusal(() => parseMachine(other, UUID), "this machine only");
  const both = `[{"uuid": "${UUID}"}, {"uuid": "${OTHER_UUID}"}]`;
  refusal(() => parseMachine(both, UUID), "this machine only");
});

Deno.test("parseMachines() refuses anything but an array of machines", () => {
  for (const text of ["", "{}", "null", "[1]", '[{"alias": "a"}]', '[{"uuid": "x"}]', "[{]"]) {
    refusal(() => parseMachines(text), "Cannot read the list of machines");
  }
});

Deno.test("parseValidation() names every property of each kind", () => {
  const errors = parseValidation(recording("validate_refused.txt")) ?? [];
  assertEquals(errors.map(({ field, code }) => [field, code]), [
    ["machine.ram", "Invalid"],
    ["machine.nics.*.vlan_id", "Invalid"],
    ["machine.colour", "UnknownField"],
    ["machine.disks.0.size", "Missing"],
  ]);
});

Deno.test("parseValidation() names an unknown brand", () => {
  const errors = parseValidation(recording("validate_bad_brand.txt"));
  assertEquals(errors?.map(({ field, code }) => [field, code]), [["machine.brand", "Invalid"]]);
});

Deno.test("parseValidation() is null for other texts", () => {
  for (const text of ["", "Invalid JSON payload: Unexpected end of input", "{}", "[]", "null"]) {
    assertEquals(parseValidation(text), null);
  }
});

Deno.test("describeResult() shows the exit code and both streams", () => {
  const text = describeResult(result({ code: 1, stderr: "first\n\n", stdout: "second\n" }));
  assertEquals(text, "ended with exit code 1: first | second");
  assertEquals(describeResult(result({ code: 2 })), "ended with exit code 2 and wrote nothing");
  const aborted = result({ code: 134, signal: "SIGABRT" });
  assertEquals(describeResult(aborted), "was ended by SIGABRT and wrote nothing");
});

Deno.test("describeResult() cuts a long text", () => {
  const text = describeResult(result({ code: 1, stderr: "x".repeat(100_000) }));
  assert(text.length < 2_200);
  assertStringIncludes(text, "(100000 characters)");
});

Deno.test("masked() hides the values of keys that name a secret", () => {
  const texts = [
    'missing .model option for disk: {"vnc_password":"pa\\"ss12"}',
    "{ vnc_password: 'pass12' }",
    "vnc_password=pass12 x",
    '{"vnc_password": "pass12',
    '{"internal_metadata":{"root_pw":"pass12"}}',
  ];
  for (const text of texts) {
    assert(!masked(text).includes("ss12"), masked(text));
    assertStringIncludes(masked(text), '"***"');
  }
});

Deno.test("masked() leaves the names of properties in a message alone", () => {
  const text = "Invalid value(s) for: vnc_password,ram";
  assertEquals(masked(text), text);
});

Deno.test("masked() hides the secrets of a payload wherever they are repeated", () => {
  const secrets = secretsOf({
    vnc_password: "pass1234",
    customer_metadata: { admin_pw: "hunter22" },
    nics: [{ ip: "10.0.0.1" }],
  });
  assertEquals(secrets, ["pass1234", "hunter22"]);
  assertEquals(masked("bad: pass1234 hunter22 10.0.0.1", secrets), "bad: *** *** 10.0.0.1");
});

Deno.test("withoutSecrets() drops only the passwords of the console", () => {
  const machine = { uuid: RECORDED_UUID, vnc_password: "a", spice_password: "b", vnc_port: 0 };
  assertEquals(withoutSecrets(machine), { uuid: RECORDED_UUID, vnc_port: 0 });
});
