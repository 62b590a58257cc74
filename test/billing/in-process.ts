/** Runs the gateway in the process of the test. This is fast enough for many short runs. */
import type { Worker } from 'node:worker_threads';
import type { TestGateway } from '../support/gateway.ts';
import { withGateway } from '../support/gateway.ts';
import { billingYaml } from './models.ts';
import type { BillingTarget } from './run.ts';
import { type BillingVendor, createBillingVendor } from './vendor.ts';

export async function withBillingGateway<Result>(work: (target: BillingTarget) => Promise<Result>, settleMs = 120_000): Promise<Result> {
  const vendor = await createBillingVendor();
  const threads = new Set<Worker>();
  const observe = (worker: Worker): void => void threads.add(worker);
  const endRuleThread = (): void => {
    for (const thread of threads) void thread.terminate();
    threads.clear();
  };
  // The only worker threads that the gateway starts are those that match content rules.
  process.on('worker', observe);
  try {
    return await withGateway({ database: 'any', yaml: () => billingYaml(vendor.url) }, (gateway) => {
      const target = targetOf(gateway, vendor, settleMs);
      return work({ ...target, endRuleThread });
    });
  } finally {
    process.off('worker', observe);
    await vendor.close();
  }
}

function targetOf({ url, admin, database }: TestGateway, vendor: BillingVendor, settleMs: number): BillingTarget {
  return { urls: () => [url], admin, database, vendor, settleMs };
}
