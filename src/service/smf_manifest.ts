// The manifest that SMF imports. The agent stays in the foreground and is the child that SMF watches.

import type { ServicePaths } from "./paths.ts";

/** More than the agent gives its tasks and callers when it stops. Seconds. */
const STOP_SECONDS = 60;
const START_SECONDS = 60;
const REFRESH_SECONDS = 10;

/**
 * The text of `zonewright.xml`. The elements stand in the order that the DTD wants.
 * @param enabled whether the agent starts at the import, which a global zone of SmartOS repeats at every
 *   boot
 * @see service_bundle(5), smf_method(7); vmadmd, which answers for running machines, is only waited for
 */
export function smfManifest(
  paths: ServicePaths,
  { enabled }: { readonly enabled: boolean },
): string {
  const start = `${paths.binary} serve --config ${paths.config}`;
  return `<?xml version="1.0"?>
<!DOCTYPE service_bundle SYSTEM "/usr/share/lib/xml/dtd/service_bundle.dtd.1">
<!-- Written by zonewright install smf. -->
<service_bundle type="manifest" name="zonewright">
  <service name="application/zonewright" type="service" version="1">
    <create_default_instance enabled="${enabled}"/>
    <single_instance/>
    <dependency name="filesystem" grouping="require_all" restart_on="none" type="service">
      <service_fmri value="svc:/system/filesystem/local:default"/>
    </dependency>
    <dependency name="network" grouping="require_all" restart_on="none" type="service">
      <service_fmri value="svc:/milestone/network:default"/>
    </dependency>
    <dependency name="vmadmd" grouping="optional_all" restart_on="none" type="service">
      <service_fmri value="svc:/system/smartdc/vmadmd:default"/>
    </dependency>
    <exec_method type="method" name="start" exec="${xml(start)}" timeout_seconds="${START_SECONDS}">
      <method_context working_directory="/">
        <method_credential user="root" group="root"/>
      </method_context>
    </exec_method>
    <exec_method type="method" name="stop" exec=":kill" timeout_seconds="${STOP_SECONDS}"/>
    <exec_method type="method" name="refresh" exec=":kill -HUP" timeout_seconds="${REFRESH_SECONDS}"/>
    <property_group name="startd" type="framework">
      <propval name="duration" type="astring" value="child"/>
      <propval name="ignore_error" type="astring" value="core,signal"/>
    </property_group>
    <stability value="Evolving"/>
    <template>
      <common_name>
        <loctext xml:lang="C">zonewright host agent</loctext>
      </common_name>
    </template>
  </service>
</service_bundle>
`;
}

function xml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
