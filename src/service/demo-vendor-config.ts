/** Completes configurations without providers with the demo vendor. */
import type { Config } from '../config/config.ts';
import { demoConfig } from '../config/load.ts';
import type { DemoVendor } from '../demo-vendor/server.ts';

export function createSharedDemoVendor() {
  let vendor: Promise<DemoVendor> | null = null;
  return {
    /** URL of the demo vendor, which starts at the first call. Null for a configuration with providers. */
    async urlFor(config: Config): Promise<string | null> {
      if (!config.demo) return null;
      vendor ??= import('../demo-vendor/server.ts').then(({ createDemoVendor }) => createDemoVendor({ paceMs: 15 }));
      return (await vendor).url;
    },
    async stop(): Promise<void> {
      await (await vendor)?.close();
    },
  };
}

/** The configuration with the demo vendor at `demoUrl`, if it needs one. */
export function withDemoVendor(config: Config, demoUrl: string | null): Config {
  return config.demo && demoUrl !== null ? demoConfig(config, demoUrl) : config;
}
