/** Puts the demo vendor into configurations that have no vendor. */
import type { Config } from '../config/config.ts';
import { demoConfig } from '../config/load.ts';
import { createDemoVendor } from '../demo-vendor/server.ts';

export interface SharedDemoVendor {
  /** Where it answers; null for a configuration that has vendors of its own. It runs from the first configuration without one on. */
  urlFor(config: Config): Promise<string | null>;
  stop(): Promise<void>;
}

export function createSharedDemoVendor(): SharedDemoVendor {
  let vendor: ReturnType<typeof createDemoVendor> | null = null;
  return {
    async urlFor(config) {
      if (!config.demo) return null;
      vendor ??= createDemoVendor({ paceMs: 15 });
      return (await vendor).url;
    },
    async stop() {
      await (await vendor)?.close();
    },
  };
}

/** The configuration as it comes into force. */
export function withDemoVendor(config: Config, demoUrl: string | null): Config {
  return config.demo && demoUrl !== null ? demoConfig(config, demoUrl) : config;
}
