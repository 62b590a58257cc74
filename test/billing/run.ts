/**
 * Runs the calls of a seed against one or more gateway processes. After that, compares what was billed with what was
 * recorded.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../src/db/database.ts';
import { type Received, sendCall } from './client.ts';
import { findViolations, type RunResult, type Violation } from './invariants.ts';
import { type BillingPlan, createBillingPlan, type PlannedCall } from './plan.ts';
import { type RecordedCall, readCalls, readCounters } from './records.ts';
import { describeViolations } from './report.ts';
import type { BillingVendor } from './vendor.ts';

export interface BillingTarget {
  /** Returns the URLs of the processes that currently serve calls. */
  readonly urls: () => readonly string[];
  readonly admin: (method: string, path: string, body?: unknown) => Promise<Response>;
  readonly database: Database;
  readonly vendor: BillingVendor;
  /** Terminates the thread that matches content rules. Only available if the gateway runs in the test process. */
  readonly endRuleThread?: () => void;
  /** Disrupts the gateway while the calls run, e.g. kills a process. Resolves when all processes are back. */
  readonly incident?: (plan: BillingPlan) => Promise<void>;
  /** How long the vendors may take to finish and the gateway to release all reservations. */
  readonly settleMs: number;
}

export class BillingError extends Error {
  override readonly name = 'BillingError';
  readonly violations: readonly Violation[];
  constructor(message: string, violations: readonly Violation[]) {
    super(message);
    this.violations = violations;
  }
}

export type BillingCounts = Readonly<Record<'admitted' | 'denied' | 'exact' | 'estimated', number>>;

export async function runBilling(target: BillingTarget, seed: number, trace?: (line: string) => void): Promise<BillingCounts> {
  const project = `b${seed}-${randomUUID().slice(0, 8)}`;
  const plan = createBillingPlan(seed, project);
  const key = await provision(target, project, plan);
  for (const call of plan.calls) target.vendor.expect(call.name, call.script);
  const incident = target.incident?.(plan);
  const timer = plan.endsRuleThread ? setInterval(() => target.endRuleThread?.(), 15) : undefined;
  const received = new Map<string, Received>();
  const sending = plan.calls.map(async (call, index) => {
    await sleep(call.atMs);
    received.set(call.name, await send(target, key, call, index));
  });
  await Promise.all(sending);
  await incident;
  clearInterval(timer);
  const reserved = await untilQuiet(target, key);
  const recorded = await untilStored(target, project, key);
  const counters = await readCounters(target.database, project);
  const result: RunResult = {
    plan,
    bills: (name) => target.vendor.ledger.of(name),
    billedCalls: target.vendor.ledger.calls(`${project}-`),
    received,
    recorded,
    counters,
    reserved,
    processes: target.urls().length,
  };
  const violations = findViolations(result);
  if (trace || violations.length > 0) {
    const text = describeViolations(result, violations);
    trace?.(text);
    if (violations.length > 0) throw new BillingError(text, violations);
  }
  target.vendor.ledger.forget(`${project}-`);
  const admitted = recorded.filter(({ reachedVendor }) => reachedVendor);
  return {
    admitted: admitted.length,
    denied: [...received.values()].filter(({ status }) => status === 429).length,
    exact: admitted.filter(({ estimated }) => !estimated).length,
    estimated: admitted.filter(({ estimated }) => estimated).length,
  };
}

async function provision({ admin }: BillingTarget, project: string, plan: BillingPlan): Promise<string> {
  const path = `/provision/teams/${project}`;
  const put = async (target: string, body: object): Promise<void> => {
    const response = await admin('PUT', target, body);
    if (!response.ok) throw new Error(`PUT ${target}: ${response.status} ${await response.text()}`);
    await response.arrayBuffer();
  };
  await put(path, { cache: { enabled: false }, monthly_cap: plan.monthlyCap });
  const { cost, calls } = plan.application;
  if (cost !== null || calls !== null) await put(`${path}/applications/app`, { ceilings: { cost, calls }, windows: plan.windows });
  if (plan.outputRule !== 'none') {
    // The expression is so expensive that the gateway matches texts of more than 150 characters in the worker thread.
    const rule = { class: 'expression', place: 'output', action: plan.outputRule === 'blocks' ? 'block' : 'observe' };
    await put(`${path}/rules`, { rules: [{ ...rule, expression: 'forbidden[0-9]{0,240}[a-f]{0,240}!' }] });
  }
  const response = await admin('POST', `${path}/keys`, { name: 'billing', ceilings: plan.key, windows: plan.windows });
  const { key } = (await response.json()) as { key?: string };
  if (!key) throw new Error(`no key: ${response.status}`);
  return key;
}

function send({ urls }: BillingTarget, key: string, call: PlannedCall, index: number): Promise<Received> {
  const all = urls();
  return sendCall({
    url: all[index % all.length] ?? '',
    key,
    path: call.path,
    body: JSON.stringify(call.body),
    headers: { 'x-gateway-task-id': call.name, 'x-gateway-source': call.source, ...call.headers },
    leaving: call.leaving,
    choices: call.choices,
  });
}

/** Waits until the vendors are idle and nothing is reserved. Returns what is still reserved after `settleMs`. */
async function untilQuiet({ urls, vendor, settleMs }: BillingTarget, key: string): Promise<string[]> {
  for (const deadline = performance.now() + settleMs; ; await sleep(20)) {
    const reserved = vendor.running() > 0 ? [`${vendor.running()} requests to vendors`] : await readReserved(urls(), key);
    if (reserved.length === 0 || performance.now() > deadline) return reserved;
  }
}

async function readReserved(urls: readonly string[], key: string): Promise<string[]> {
  const all = await Promise.all(
    urls.map(async (url) => {
      const response = await fetch(`${url}/status/peek`, { headers: { authorization: `Bearer ${key}` } });
      if (!response.ok) return [`/status/peek: ${response.status} ${await response.text()}`];
      const { key: own } = (await response.json()) as { key: { ceilings: Record<string, { reserved: number }> } };
      return Object.entries(own.ceilings).flatMap(([name, { reserved }]) => (reserved === 0 ? [] : [`${name}: ${reserved}`]));
    }),
  );
  return all.flat();
}

/**
 * Reads the rows of all calls. We request `/usage/me` first because it waits until the process has stored its journal.
 */
async function untilStored({ urls, database }: BillingTarget, project: string, key: string): Promise<readonly RecordedCall[]> {
  for (const url of urls()) {
    const response = await fetch(`${url}/usage/me`, { headers: { authorization: `Bearer ${key}` } });
    await response.arrayBuffer();
  }
  return readCalls(database, project);
}
