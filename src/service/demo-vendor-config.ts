import type { Config } from '../config/config.ts';
import { demoConfig } from '../config/load.ts';
import type { DemoVendor } from '../demo-vendor/server.ts';

export function createSharedDemoVendor() {
  let vendor: Promise<DemoVendor> | null = null;
  return {
    /**
     * Returns the URL of the demo vendor and starts it on the first call. Returns null if the configuration has
     * providers.
     */
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

/** Adds the demo vendor as a provider if `demoUrl` isn't null. */
export function withDemoVendor(config: Config, demoUrl: string | null): Config {
  return config.demo && demoUrl !== null ? demoConfig(config, demoUrl) : config;
}
