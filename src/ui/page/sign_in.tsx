// Signing in, where the agent requires a token.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { sessionEnded, signIn, wordsOf } from "../client/client.ts";
import { Button, Command } from "../part/controls.tsx";
import { Banner } from "../part/message.tsx";
import { nameTab } from "../browser/tab.ts";

/** The form; the page of the address bar follows it. */
export function SignIn(): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    nameTab("Sign in");
    // The attribute autofocus is for a document that opens, and not for a session that ends later.
    input.current?.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await signIn(token.trim());
    } catch (failure) {
      setError(wordsOf(failure));
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <h1>Sign in to zonewright</h1>
      {sessionEnded.value && <Ended />}
      <p class="muted">
        This agent requires a token. The browser keeps a cookie for 12 hours, or until the agent
        restarts; the token is not kept.
      </p>
      <form onSubmit={submit}>
        <label>
          Token
          <input
            ref={input}
            type="password"
            autocomplete="current-password"
            spellcheck={false}
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {error !== undefined && (
          <div role="alert">
            <Banner kind="bad" title={error} />
          </div>
        )}
        <Button kind="primary" type="submit" disabled={busy}>Sign in</Button>
      </form>
      <details class="terminal">
        <summary>I have no token</summary>
        <p class="muted">
          Make one on the agent's host. With{" "}
          <code>--scope read</code>, the console shows everything and changes nothing.
        </p>
        <Command text="zonewright token create --name NAME --scope admin" label="command" />
      </details>
    </main>
  );
}

function Ended(): JSX.Element {
  return (
    <div role="alert">
      <Banner kind="info" title="Your session has ended">
        Its 12 hours are over, the agent has restarted, or the token was revoked. Sign in to return
        to the page you were on.
      </Banner>
    </div>
  );
}
