// The web console: asks the agent who is signed in, then shows the page of the address.

import { render } from "preact";
import { loadSession } from "./client/client.ts";
import { startRouting } from "./browser.ts";
import { App } from "./page/app.tsx";

const root = document.getElementById("app");
if (root !== null) {
  startRouting();
  render(<App />, root);
  // Without an answer, the page says so and offers another try.
  loadSession().catch(() => {});
}
