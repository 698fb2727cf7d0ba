// The OpenAPI document as a page for people: every operation with its parameters, bodies and answers, and every
// schema. It needs no script. Loaded on the first request for it; see app.ts.

import { html, raw } from "hono/html";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { openapiDocument } from "./document.ts";
import type { AgentBounds } from "./operation.ts";

/** Text in which everything that HTML would read is escaped. */
type Html = ReturnType<typeof html>;

/** The styles of the page; it has no others. */
export const PAGE_STYLE = `
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: break-word; }
code, pre { font: 0.9em ui-monospace, monospace; }
pre { overflow: auto; max-height: 40rem; padding: 0.5rem; border: 1px solid; border-radius: 4px; }
nav ul { columns: 15rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 0.25rem 0.5rem; border-bottom: 1px solid; text-align: start; vertical-align: top; }
section { border-top: 1px solid; margin-top: 2rem; }
`;

/** The page as HTML without scripts. */
export async function openapiPage(bounds: AgentBounds): Promise<string> {
  const document = openapiDocument(bounds);
  const info = objectIn(document, "info");
  const components = objectIn(document, "components");
  const tags = Array.isArray(document.tags) ? document.tags.filter(isJsonObject) : [];
  const operations = operationsOf(document);
  const schemas = Object.entries(objectIn(components, "schemas"));
  const page = await html`
    <!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>zonewright API</title>
        <link rel="icon" href="data:,">
        <style>${raw(PAGE_STYLE)}</style>
      </head>
      <body>
    <h1>zonewright ${textIn(info, "version")}: HTTP API</h1>
    <p>For programs: <a href="/openapi.json">/openapi.json</a>. For operators: <a href="/ui">the console</a>.</p>
    ${prose(textIn(info, "description"))}
    <nav><ul>${tags.map((tag) => item(`tag-${textIn(tag, "name")}`, textIn(tag, "name")))}${item(
      "schemas",
      "Schemas",
    )}</ul></nav>
    ${tags.map((tag) =>
      tagSection(
        tag,
        operations.filter(({ tags }) => tags.includes(textIn(tag, "name"))),
        components,
      )
    )}
    <section id="schemas"><h2>Schemas</h2>
    ${schemas.map(([name, schema]) =>
      html`
        <h3 id="schema-${name}">${name}</h3>${prose(textIn(schema, "description"))}
        <pre>${JSON.stringify(schema, null, 2)}</pre>
      `
    )}</section>
      </body>
    </html>
  `;
  return page.toString();
}

interface ShownOperation {
  readonly method: string;
  readonly path: string;
  readonly tags: readonly JsonValue[];
  readonly operation: JsonObject;
  /** Those of its path and its own. */
  readonly parameters: readonly JsonObject[];
}

function operationsOf(document: JsonObject): ShownOperation[] {
  const components = objectIn(document, "components");
  return Object.entries(objectIn(document, "paths")).flatMap(([path, one]) => {
    const { parameters: shared, ...operations } = isJsonObject(one) ? one : {};
    return Object.entries(operations).filter((entry): entry is [string, JsonObject] =>
      isJsonObject(entry[1])
    ).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      tags: listIn(operation.tags),
      operation,
      parameters: [...listIn(shared), ...listIn(operation.parameters)].map((parameter) =>
        referred(components, parameter)
      ),
    }));
  });
}

function tagSection(
  tag: JsonObject,
  operations: readonly ShownOperation[],
  components: JsonObject,
): Html {
  const name = textIn(tag, "name");
  return html`
    <section id="tag-${name}"><h2>${name}</h2>${prose(textIn(tag, "description"))}
    <ul>${operations.map(({ method, path, operation }) =>
      item(textIn(operation, "operationId"), `${method} ${path}`, textIn(operation, "summary"))
    )}</ul>
    ${operations.map((operation) => operationSection(operation, components))}</section>
  `;
}

function operationSection(
  { method, path, operation, parameters }: ShownOperation,
  components: JsonObject,
): Html {
  const body = referred(components, operation.requestBody);
  const answers = Object.entries(objectIn(operation, "responses"));
  return html`
    <article id="${textIn(operation, "operationId")}">
    <h3><code>${method} ${path}</code></h3>
    <p>${textIn(operation, "summary")}.</p>${prose(textIn(operation, "description"))}
    ${table(["Parameter", "In", "Type", "Meaning"], parameters.map(parameterRow))}
    ${Object.keys(body).length === 0
      ? ""
      : html`<p>Body${body.required === true ? "" : ", optional"}: ${contentOf(body)}</p>${
        examplesOf(body)
      }`}
    ${table(
      ["Answer", "Body", "Meaning"],
      answers.map(([status, answer]) => {
        const shown = referred(components, answer);
        return [html`${status}`, contentOf(shown), words(textIn(shown, "description"))];
      }),
    )}
    ${answers.filter(([status]) => status.startsWith("2")).map(([, answer]) =>
      examplesOf(referred(components, answer))
    )}</article>
  `;
}

function parameterRow(parameter: JsonObject): Html[] {
  const required = parameter.required === true ? ", required" : "";
  return [
    html`<code>${textIn(parameter, "name")}</code>`,
    html`${textIn(parameter, "in")}${required}`,
    typeOf(objectIn(parameter, "schema")),
    words(textIn(parameter, "description")),
  ];
}

/** Types and schemas of a body. */
function contentOf({ content }: JsonObject): Html {
  const types = isJsonObject(content) ? Object.entries(content) : [];
  return html`${
    types.map(([type, described]) =>
      html`
        <code>${type}</code> ${typeOf(isJsonObject(described) ? objectIn(described, "schema") : {})}
      `
    )
  }`;
}

function examplesOf({ content }: JsonObject): Html {
  const shown = isJsonObject(content) ? Object.values(content).filter(isJsonObject) : [];
  const examples = shown.flatMap(({ example, examples }): JsonValue[] => {
    if (example !== undefined) return [example];
    return isJsonObject(examples)
      ? Object.values(examples).map((one) => isJsonObject(one) ? one.value ?? null : one)
      : [];
  });
  return html`${
    examples.map((example) =>
      html`
        <details>
          <summary>Example</summary>
          <pre>${typeof example === "string" ? example : JSON.stringify(example, null, 2)}</pre>
        </details>
      `
    )
  }`;
}

/** A schema in a few words: its name with a link, or its type and limits. */
function typeOf(schema: JsonObject): Html {
  const { $ref: reference, type, items, enum: values, ...limits } = schema;
  if (typeof reference === "string") {
    const name = reference.split("/").at(-1);
    return html`<a href="#schema-${name}">${name}</a>`;
  }
  if (isJsonObject(items)) return html`list of ${typeOf(items)}`;
  const { description: _description, default: _default, examples: _examples, ...rules } = limits;
  const named = listIn(values).map((value) =>
    html`
      <code>${JSON.stringify(value)}</code>
    `
  );
  const ruled = Object.entries(rules).filter(([, rule]) => typeof rule !== "object")
    .map(([rule, value]) =>
      html`
        ${rule} <code>${JSON.stringify(value)}</code>
      `
    );
  return html`${listIn(type).length > 0 ? listIn(type).join(" or ") : type ?? ""} ${named}${ruled}`;
}

function table(heads: readonly string[], rows: readonly (readonly Html[])[]): Html {
  if (rows.length === 0) return html``;
  return html`<table><tr>${heads.map((head) => html`<th>${head}</th>`)}</tr>${
    rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)
  }</table>`;
}

function item(anchor: string, text: string, more = ""): Html {
  return html`<li><a href="#${anchor}">${text}</a> ${more}</li>`;
}

/** Paragraphs and lists of a description, which are parted by empty lines. */
function prose(text: string): Html {
  const parts = text.split("\n\n").filter((part) => part !== "");
  return html`${
    parts.map((part) =>
      part.startsWith("- ")
        ? html`<ul>${part.slice(2).split("\n- ").map((line) => html`<li>${words(line)}</li>`)}</ul>`
        : html`<p>${words(part)}</p>`
    )
  }`;
}

/** A text in which backquotes mark code. */
function words(text: string): Html {
  return html`${text.split("`").map((part, n) => n % 2 === 1 ? html`<code>${part}</code>` : part)}`;
}

function referred(components: JsonObject, value: JsonValue | undefined): JsonObject {
  if (!isJsonObject(value)) return {};
  if (typeof value.$ref !== "string") return value;
  const [kind = "", name = ""] = value.$ref.split("/").slice(2);
  return objectIn(objectIn(components, kind), name);
}

function objectIn(object: JsonObject, key: string): JsonObject {
  const value = object[key];
  return isJsonObject(value) ? value : {};
}

function textIn(value: JsonValue, key: string): string {
  const text = isJsonObject(value) ? value[key] : undefined;
  return typeof text === "string" ? text : "";
}

function listIn(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}
