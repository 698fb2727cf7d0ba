// A field of the form: its label, what it takes, and why the agent refuses it, which a screen reader says with it.

import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { type Draft, fieldText, type Path, pathText, valueAt } from "./draft.ts";
import type { Bound } from "./bounds.ts";

/** Passed to every field of the form. */
export interface FormContext {
  readonly draft: Draft;
  /** What the agent refused, by the path of the field. */
  readonly errors: ReadonlyMap<string, string>;
}

interface FieldProps {
  readonly form: FormContext;
  readonly path: Path;
  readonly label: string;
  /** A list of fields says which one it is: `Size of disk 2`. */
  readonly of?: string;
  readonly hint?: string;
}

/** The id of the element of a field. @param field as the agent names it */
export function idOf(field: string): string {
  return `field-${field}`;
}

/** Why a field is refused, or one of its list. */
function errorOf({ errors }: FormContext, field: string): string | undefined {
  const [, within] = [...errors].find(([name]) => name.startsWith(`${field}[`)) ?? [];
  return errors.get(field) ?? within;
}

/** What an element of a field is named and described by. */
function namesOf({ form, path, hint, label, of }: FieldProps) {
  const field = pathText(path);
  const error = errorOf(form, field);
  const described = [
    hint === undefined ? "" : `${idOf(field)}-hint`,
    error === undefined ? "" : `${idOf(field)}-error`,
  ].filter((id) => id !== "").join(" ");
  return {
    id: idOf(field),
    "aria-label": of === undefined ? undefined : `${label} of ${of}`,
    "aria-invalid": error !== undefined,
    "aria-describedby": described === "" ? undefined : described,
  };
}

function Labelled({ props, children }: { props: FieldProps; children: ComponentChildren }) {
  const { form, path, label, hint } = props;
  const field = pathText(path);
  const error = errorOf(form, field);
  return (
    <div class="field">
      <label for={idOf(field)}>{label}</label>
      {children}
      {hint !== undefined && <p id={`${idOf(field)}-hint`} class="hint">{hint}</p>}
      {error !== undefined && (
        <p id={`${idOf(field)}-error`} class="field-error">{error.replace(`${field} `, "")}</p>
      )}
    </div>
  );
}

/** A text; an empty one is left out. */
export function TextField(props: FieldProps & { placeholder?: string }): JSX.Element {
  const { form: { draft }, path, placeholder } = props;
  return (
    <Labelled props={props}>
      <input
        {...namesOf(props)}
        type="text"
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={fieldText(valueAt(draft.request.value, path))}
        onInput={({ currentTarget: { value } }) =>
          draft.set(path, value === "" ? undefined : value)}
      />
    </Labelled>
  );
}

/** Several texts with commas between them. */
export function ListField(props: FieldProps & { placeholder?: string }): JSX.Element {
  const { form: { draft }, path, placeholder } = props;
  const typed = useSignal("");
  const value = valueAt(draft.request.value, path);
  const list = Array.isArray(value) ? value.map(fieldText) : [];
  // What is typed stays as long as it means the same: a comma at its end is no text yet.
  const same = textsOf(typed.value).join() === list.join();
  return (
    <Labelled props={props}>
      <input
        {...namesOf(props)}
        type="text"
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={same ? typed.value : list.join(", ")}
        onInput={({ currentTarget }) => {
          typed.value = currentTarget.value;
          const texts = textsOf(typed.value);
          draft.set(path, texts.length === 0 ? undefined : texts);
        }}
      />
    </Labelled>
  );
}

function textsOf(typed: string): readonly string[] {
  return typed.split(",").map((text) => text.trim()).filter((text) => text !== "");
}

/** A whole number within its bounds. */
export function NumberField(props: FieldProps & { bound: Bound; step?: number }): JSX.Element {
  const { form: { draft }, path, bound: { min, max }, step } = props;
  return (
    <Labelled props={props}>
      <input
        {...namesOf(props)}
        type="number"
        inputMode="numeric"
        min={min}
        max={max}
        // A step counts from the least value: what fits no step is right all the same.
        step={step === undefined ? 1 : "any"}
        value={fieldText(valueAt(draft.request.value, path))}
        onInput={({ currentTarget: { value } }) =>
          draft.set(path, value === "" ? undefined : Number(value))}
      />
    </Labelled>
  );
}

/** A choice among words; a value that is none of them is shown as it is. */
export function ChoiceField(
  props: FieldProps & {
    readonly words: readonly string[];
    /** What is shown for a word that is not shown as it is. */
    readonly shown?: ReadonlyMap<string, string>;
    /** What no value means; without it there has to be one. */
    readonly none?: string;
    readonly onChange?: (value: string) => void;
  },
): JSX.Element {
  const { form: { draft }, path, words, shown, none, onChange } = props;
  const value = fieldText(valueAt(draft.request.value, path));
  const known = value === "" || words.includes(value) ? words : [...words, value];
  return (
    <Labelled props={props}>
      <select
        {...namesOf(props)}
        value={value}
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.value;
          if (onChange !== undefined) onChange(chosen);
          else draft.set(path, chosen === "" ? undefined : chosen);
        }}
      >
        {(none !== undefined || value === "") && <option value="">{none ?? "Choose"}</option>}
        {known.map((word) => <option key={word} value={word}>{shown?.get(word) ?? word}</option>)}
      </select>
    </Labelled>
  );
}
