// The program of calls behind the adapter.

import "../../../vendors/node/install.ts";
import "./calls.ts";
