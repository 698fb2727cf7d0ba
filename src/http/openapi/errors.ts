// The refusals of the description: the one shape of errors, the headers that answers carry, and a
// response for each status by which a request is refused.

import { ERROR_CODES } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";
import { headerRef, listOf, objectOf, schemaRef, TEXT } from "./operation.ts";
import { type Refusal, REFUSALS, type RefusalStatus } from "./refusals.ts";

const REQUEST_ID = "8f3f0c0e-5b1a-4d64-9f7a-0d6a4f3c2b1e";

/** By which any request may be refused, whatever it asks for. */
const ALWAYS: readonly RefusalStatus[] = ["400", "401", "403", "431", "500", "503"];
/** By which a request with a body may be refused too. */
export const BODY_REFUSALS: readonly RefusalStatus[] = ["409", "413", "415"];

/** The refusals of an operation besides those that any request may meet. */
export function refusals(...statuses: readonly RefusalStatus[]): JsonObject {
  return onlyRefusals(...ALWAYS, ...statuses);
}

/** Refusals and no others. */
export function onlyRefusals(...statuses: readonly RefusalStatus[]): JsonObject {
  return Object.fromEntries(
    statuses.map((status) => [status, { $ref: `#/components/responses/${REFUSALS[status].name}` }]),
  );
}

/** `components.responses`: one for each status. */
export const ERROR_RESPONSES: JsonObject = Object.fromEntries(
  Object.values(REFUSALS).map(({ name, description, headers = [], examples }) => [name, {
    description,
    headers: Object.fromEntries(
      [...headers, "X-Request-Id"].map((header) => [header, headerRef(header)]),
    ),
    content: {
      "application/json": { schema: schemaRef("Error"), examples: withRequestId(examples) },
    },
  }]),
);

function withRequestId(examples: Refusal["examples"]): JsonObject {
  return Object.fromEntries(
    Object.entries(examples).map(([name, { message, error_code, errors }]) => {
      const { word: code } = ERROR_CODES[error_code];
      const value = { code, message, request_id: REQUEST_ID, error_code };
      return [name, { value: errors === undefined ? value : { ...value, errors } }];
    }),
  );
}

/** The schemas of errors. */
export const ERROR_SCHEMAS: JsonObject = {
  Error: objectOf("Why a request was refused, on every route.", ["code", "message", "request_id"], {
    code: { type: "string", description: "A word for the status, such as `ResourceNotFound`." },
    message: {
      type: "string",
      description: "For people: what could not be done, what was found and what was expected.",
    },
    request_id: { type: "string", description: "As in the header `X-Request-Id`." },
    error_code: { type: "string", description: "A word for the reason, such as `not_found`." },
    errors: listOf(schemaRef("FieldError")),
  }),
  FieldError: objectOf("One incorrect parameter.", ["field", "code", "message"], {
    field: { type: "string", description: "Its path in the body, such as `chain[1].timeout`." },
    code: { type: "string", enum: ["Missing", "Invalid", "UnknownField", "TooLarge"] },
    message: TEXT,
  }),
};
