// Prepares peers: their packages, a Node that is new enough, and the servers that they need. A peer
// that cannot be prepared on this machine is left out, with the reason.

import { installPackages, nodeFor, redisProgram } from "./peer_install.ts";
import type { Peer } from "./peer_list.ts";
import { type Service, startPostgres, startRedis } from "./peer_services.ts";

/** What a peer needs to run, once it is there. */
export interface PreparedPeer {
  readonly peer: Peer;
  readonly node: string;
  readonly packagesFolder: string;
  readonly service: Service | undefined;
}

/** Installs packages and starts servers as peers ask for them; each server once. */
export class PeerStage {
  readonly #folder: string;
  readonly #services = new Map<string, Service>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @throws {Error} telling why the peer cannot run here */
  async prepare(peer: Peer): Promise<PreparedPeer> {
    const node = await nodeFor(peer.nodeMinimum);
    const packagesFolder = await installPackages(peer.option, peer.packages);
    const service = peer.server === undefined ? undefined : await this.#service(peer.server);
    return { peer, node, packagesFolder, service };
  }

  async stop(): Promise<void> {
    for (const service of this.#services.values()) await service.stop();
    this.#services.clear();
  }

  async #service(name: "postgres" | "redis"): Promise<Service> {
    const running = this.#services.get(name);
    if (running !== undefined) return running;
    const service = name === "postgres"
      ? await startPostgres(this.#folder)
      : await this.#startRedis();
    this.#services.set(name, service);
    return service;
  }

  async #startRedis(): Promise<Service> {
    const { program, libraries } = await redisProgram();
    return await startRedis(this.#folder, program, libraries);
  }
}
