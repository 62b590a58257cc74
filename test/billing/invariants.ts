/**
 * Checks what the vendors billed against the promises in docs/architecture/ceilings.md and docs/api/reference.md. Don't
 * weaken the promises here, because each one has to be what the documentation says.
 */
import { tokensWithin } from '../../src/pipeline/call/estimate.ts';
import type { Received } from './client.ts';
import type { UsageStyle } from './generation.ts';
import { type Bill, billedTokens, nanosOf, totalTokens } from './ledger.ts';
import type { BillingPlan, PlannedCall } from './plan.ts';
import type { RecordedCall, RecordedCounter } from './records.ts';

export interface RunResult {
  readonly plan: BillingPlan;
  /** Returns what the vendors billed for a call, in the order of its requests. */
  readonly bills: (name: string) => readonly Bill[];
  readonly billedCalls: readonly string[];
  readonly received: ReadonlyMap<string, Received>;
  readonly recorded: readonly RecordedCall[];
  readonly counters: readonly RecordedCounter[];
  /** Describes reservations that are still held although every call has ended. */
  readonly reserved: readonly string[];
  /** The number of processes that served the calls. */
  readonly processes: number;
}

export interface Violation {
  readonly sentence: Sentence;
  readonly detail: string;
  /** Names of the calls that show the violation. */
  readonly calls: readonly string[];
}

export const sentences = {
  recorded: 'Every call that reached a vendor has one row.',
  exact: 'A call that is not marked as estimated costs what the vendors billed for all of its attempts.',
  marked: "A whole response with the vendor's token counts is not an estimate, unless an earlier attempt is billed too.",
  finished: 'A caller that leaves when all choices have ended is charged what the vendor billed.',
  delivered: 'An estimate is never below the prompt and what was delivered.',
  inflated: 'An estimate of a response that broke off is not above what the vendor generated, or had time to generate.',
  background: 'A response that the vendor goes on generating is charged at least what the vendor bills.',
  internal: 'Calls that the gateway makes for a call are charged what the vendor billed.',
  cost: 'A cost ceiling is exceeded by at most one call, which runs alone and was larger than what remained.',
  tpm: 'A tpm ceiling is exceeded by at most what the running calls use beyond their estimates.',
  calls: 'Ceilings of calls and rpm are never exceeded.',
  counted: 'A counter is the sum of the calls in its window, and each call counts once.',
  reserved: 'When every call has ended, nothing is reserved.',
} as const;

export type Sentence = keyof typeof sentences;

/** Everything we know about one recorded call. */
interface Account {
  readonly row: RecordedCall;
  readonly call: PlannedCall | undefined;
  /** The bill for the attempt that the row charges, if a vendor billed one. */
  readonly bill: Bill | undefined;
  /** What the vendors billed for all attempts, in nano-dollars. */
  readonly billedNanos: number;
  readonly received: Received | undefined;
}

/** Allow for the rounding of a single price and of a single estimate. */
const nanosTolerance = 1;
const tokensTolerance = 2;
/** In milliseconds. */
const clockTolerance = 5;
/** According to its documentation, the gateway estimates at most this many tokens per image. */
const estimatedTokensPerImage = 1_600;

export function findViolations(result: RunResult): readonly Violation[] {
  const { plan, recorded } = result;
  const planned = new Map(plan.calls.map((call) => [call.name, call]));
  const accounts = recorded.map((row): Account => {
    const call = planned.get(row.name ?? '');
    const bills = call ? result.bills(call.name).filter((bill) => isOwn(bill, call)) : [];
    const bill = bills.findLast(({ model }) => model.id === row.model) ?? (row.model === null ? undefined : bills.at(-1));
    const billedNanos = bills.reduce((sum, each) => sum + nanosOf(each), 0);
    return { row, call, bill, billedNanos, received: result.received.get(row.name ?? '') };
  });
  return [
    ...checkRows(result, planned),
    ...accounts.flatMap(checkAccount),
    ...checkInternal(result, planned),
    ...checkCeilings(result, accounts),
    ...checkCounters(result),
    ...(result.reserved.length > 0 ? [{ sentence: 'reserved' as const, detail: result.reserved.join(', '), calls: [] }] : []),
  ];
}

/** Returns false for embeddings that the gateway requested for a recall rather than for the caller. */
function isOwn(bill: Bill, call: PlannedCall): boolean {
  return bill.route !== 'embeddings' || call.route === 'embeddings';
}

function checkRows({ recorded, billedCalls, bills }: RunResult, planned: ReadonlyMap<string, PlannedCall>): Violation[] {
  return billedCalls.flatMap((name) => {
    const call = planned.get(name);
    if (!call || !bills(name).some((bill) => isOwn(bill, call))) return [];
    const rows = recorded.filter((row) => row.name === name);
    return rows.length === 1 ? [] : [{ sentence: 'recorded' as const, detail: `${rows.length} rows`, calls: [name] }];
  });
}

function checkAccount({ row, call, bill, billedNanos, received }: Account): Violation[] {
  if (!call) return [];
  const calls = [call.name];
  // Rows without a model are free, so no vendor may have billed the call.
  if (row.model === null && row.outcome === 'failed' && billedNanos > nanosTolerance)
    return [{ sentence: 'exact', detail: `recorded nothing, billed ${format(billedNanos, 0)}`, calls }];
  if (!bill) return [];
  // The process was killed, and whoever recovered its journal knew only the request
  // (docs/architecture/request-lifecycle.md).
  if (row.outcome === 'unknown')
    return checkEstimate({ row, bill, received: undefined, call }).map(([sentence, detail]) => ({ sentence, detail, calls }));
  const violation = (sentence: Sentence, detail: string): Violation[] => [{ sentence, detail, calls }];
  const billedTotal = totalTokens(billedTokens(bill));
  const isEqual = Math.abs(row.costNanos - billedNanos) <= nanosTolerance && totalTokens(row.tokens) === billedTotal;
  const difference = `recorded ${format(row.costNanos, totalTokens(row.tokens))}, billed ${format(billedNanos, billedTotal)}`;
  if (bill.isBackground) return row.costNanos + nanosTolerance >= billedNanos ? [] : violation('background', difference);
  if (received?.isFinished === true && received.hasLeft && !isIncomplete(call.script.usage) && bill.failure === null) {
    return isEqual && !row.estimated ? [] : violation('finished', difference);
  }
  if (!row.estimated) return isEqual ? [] : violation('exact', difference);
  const isOnlyBill = nanosOf(bill) === billedNanos;
  if (received?.isWhole === true && received.status === 200 && bill.usageSent && bill.failure === null && isOnlyBill)
    return violation('marked', difference);
  return checkEstimate({ row, bill, received, call }).flatMap(([sentence, detail]) => violation(sentence, detail));
}

function isIncomplete(usage: UsageStyle): boolean {
  return usage === 'missing' || usage === 'before the content';
}

function checkEstimate({ row, bill, received, call }: Pick<Account, 'row' | 'received' | 'call'> & { bill: Bill }): [Sentence, string][] {
  const found: [Sentence, string][] = [];
  const billedInput = totalTokens({ ...bill.tokens, output: 0 });
  const unknownPerImage = Math.max(0, bill.model.tokensPerImage - estimatedTokensPerImage);
  // The vendor adds its search results to the prompt, but the gateway never sees them.
  const foundTokens = bill.webSearches * bill.model.tokensPerWebSearch;
  const promptTokens = billedInput - bill.images * unknownPerImage - foundTokens;
  const input = totalTokens({ ...row.tokens, output: 0 });
  if (input + tokensTolerance < promptTokens) found.push(['delivered', `recorded ${input} tokens of input, billed ${billedInput}`]);
  const delivered = Math.floor((received?.deliveredCharacters ?? 0) / 4);
  if (row.tokens.output + tokensTolerance < delivered)
    found.push(['delivered', `recorded ${row.tokens.output} tokens of output, delivered ${delivered}`]);
  const hasBrokenOff = row.outcome === 'client_left' || row.outcome === 'interrupted';
  // We allow 16 more tokens because the gateway counts the tool's name, which the scripted vendors don't bill. It also
  // counts what a model may have generated before its first content, in each of its choices.
  const mostHidden = tokensWithin(row.endedAt - row.startedAt) * (call?.choices ?? 1);
  if (hasBrokenOff && row.stream && row.tokens.output > bill.tokens.output + tokensTolerance + 16 + mostHidden)
    found.push(['inflated', `recorded ${row.tokens.output} tokens of output, generated ${bill.tokens.output}`]);
  return found;
}

/** Checks the embeddings that recalls requested. Their rows don't name the call, so we can only compare the sums. */
function checkInternal({ recorded, billedCalls, bills }: RunResult, planned: ReadonlyMap<string, PlannedCall>): Violation[] {
  const internal = billedCalls.flatMap((name) => {
    const call = planned.get(name);
    return call ? bills(name).filter((bill) => !isOwn(bill, call)) : [];
  });
  const rows = recorded.filter(({ name, estimated }) => name === null && !estimated);
  const billed = internal.reduce((sum, bill) => sum + nanosOf(bill), 0);
  const counted = rows.reduce((sum, row) => sum + row.costNanos, 0);
  if (rows.length < recorded.filter(({ name }) => name === null).length) return [];
  return Math.abs(billed - counted) <= rows.length * nanosTolerance
    ? []
    : [{ sentence: 'internal', detail: `recorded ${counted} nano-dollars, billed ${billed}`, calls: [] }];
}

interface Charge {
  readonly name: string;
  readonly amount: number;
  /**
   * When the vendor worked on the call. The gateway held the reservation for at least that long. Both times are equal
   * if the call didn't end normally.
   */
  readonly heldFrom: number;
  readonly heldUntil: number;
}

function toCharge({ row, bill }: Account, amount: number): Charge {
  const { openedAt = 0, closedAt = null } = bill ?? {};
  const isHeld = row.outcome === 'ok' && closedAt !== null;
  return { name: row.name ?? '', amount, heldFrom: openedAt, heldUntil: isHeld ? closedAt : openedAt };
}

function checkCeilings({ plan, processes }: RunResult, accounts: readonly Account[]): Violation[] {
  const { key, application, monthlyCap, windows } = plan;
  const ofKey = accounts.filter(({ row }) => row.isOfKey);
  const ofApplication = accounts.filter(({ row }) => row.source === 'app');
  const scopes = [
    { scope: 'key', accounts: ofKey, cost: key.cost, calls: key.calls, windows },
    { scope: 'application', accounts: ofApplication, cost: application.cost, calls: application.calls, windows },
    { scope: 'project', accounts, cost: monthlyCap, calls: null, windows: { cost: 'month', calls: 'month' } as const },
  ];
  const inScopes = scopes.flatMap(({ scope, accounts, cost, calls, windows }) => [
    ...inWindows(accounts, windows.cost).flatMap((part) => checkCost(scope, cost, part)),
    ...inWindows(accounts, windows.calls).flatMap((part) => checkCalls(`calls of the ${scope}`, calls, part)),
  ]);
  const inMinutes = inWindows(ofKey, 'minute').flatMap((part) => [
    ...checkCalls('rpm', key.rpm, part),
    ...checkTokens(key.tpm, part, processes),
  ]);
  return [...inScopes, ...inMinutes];
}

/** Returns the recorded cost, or the vendor's bill if that is higher and the row isn't an estimate. */
function costOf({ row, billedNanos }: Account): number {
  return row.estimated ? row.costNanos : Math.max(row.costNanos, billedNanos);
}

function checkCost(scope: string, usd: number | null, accounts: readonly Account[]): Violation[] {
  if (usd === null) return [];
  const charges = accounts.map((account) => toCharge(account, costOf(account)));
  return checkOneExceeds(`cost of the ${scope}`, Math.round(usd * 1e9), charges);
}

/**
 * The total may exceed the ceiling only because of a single call that ran alone: without that call, the total has to
 * fit. Calls that ran concurrently were all reserved at the same time, so together they have to fit into the ceiling.
 */
function checkOneExceeds(what: string, limit: number, charges: readonly Charge[]): Violation[] {
  const total = charges.reduce((sum, { amount }) => sum + amount, 0);
  const largest = charges.toSorted((one, other) => other.amount - one.amount);
  const calls = largest.slice(0, 3).map(({ name }) => name);
  if (total > limit && !charges.some((charge) => total - charge.amount <= limit && ranAlone(charge, charges))) {
    const detail = `${what}: ${total} of ${limit}, ${charges.length} calls, the largest used ${largest[0]?.amount}`;
    return [{ sentence: 'cost', detail, calls }];
  }
  return findSideBySide(charges, limit).map(({ amount, names }) => {
    const detail = `${what}: ${names.length} calls that ran side by side used ${amount} of ${limit}`;
    return { sentence: 'cost', detail, calls: names.slice(0, 3) };
  });
}

/** Finds calls that ran concurrently and together used more than the ceiling. Returns at most one such group. */
function findSideBySide(charges: readonly Charge[], limit: number): { readonly amount: number; readonly names: readonly string[] }[] {
  for (const { heldFrom: at } of charges) {
    const running = charges.filter(({ heldFrom, heldUntil }) => heldFrom <= at && at < heldUntil);
    const amount = running.reduce((sum, charge) => sum + charge.amount, 0);
    if (running.length > 1 && amount > limit) return [{ amount, names: running.map(({ name }) => name) }];
  }
  return [];
}

function ranAlone(charge: Charge, charges: readonly Charge[]): boolean {
  return charges.every(
    (other) => other === charge || other.amount === 0 || other.heldFrom >= charge.heldUntil || other.heldUntil <= charge.heldFrom,
  );
}

/**
 * Estimates may be too low, so concurrent calls may exceed the ceiling together. Once the ceiling is used up, the
 * gateway denies new calls, except that each process may still use what it has leased before, which is at most a tenth
 * of the ceiling.
 */
function checkTokens(limit: number | null, accounts: readonly Account[], processes: number): Violation[] {
  if (limit === null) return [];
  const called = accounts.filter(({ row }) => row.reachedVendor);
  const estimates = called.map((account) => toCharge(account, account.call ? leastEstimate(account.call, account.bill) : 0));
  const isLate = ({ row }: Account): boolean => {
    const ended = called.filter(({ row: other }) => other.endedAt + clockTolerance < row.startedAt);
    return ended.reduce((sum, { row: { tokens } }) => sum + totalTokens(tokens), 0) >= limit;
  };
  const late = estimates.filter((_, index) => isLate(called[index] as Account));
  const lateTokens = late.reduce((sum, { amount }) => sum + amount, 0);
  const violations = findSideBySide(estimates, limit).map(({ amount, names }) => ({
    detail: `${names.length} calls ran side by side, whose estimates are at least ${amount} of ${limit}`,
    calls: names.slice(0, 3),
  }));
  if (lateTokens > 0.1 * limit * processes) {
    const detail = `${late.length} calls started after ${limit} tokens had been used, with estimates of at least ${lateTokens}`;
    violations.push({ detail, calls: late.slice(0, 3).map(({ name }) => name) });
  }
  return violations.map((violation) => ({ sentence: 'tpm', ...violation }));
}

/**
 * An estimate is at least 1,024 tokens per choice, unless the caller or the model has a lower limit
 * (docs/architecture/ceilings.md).
 */
function leastEstimate({ route, body, choices }: PlannedCall, bill: Bill | undefined): number {
  if (route !== 'chat' && route !== 'messages' && route !== 'responses') return 0;
  const limits = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'].flatMap((name) => {
    const limit = body[name];
    return limit === undefined || limit === null ? [] : typeof limit === 'number' ? limit : 1_024;
  });
  return choices * Math.min(1_024, bill?.model.maxOutputTokens ?? 0, limits.length === 0 ? 1_024 : Math.max(...limits));
}

function checkCalls(what: string, limit: number | null, accounts: readonly Account[]): Violation[] {
  const taken = accounts.filter(({ row }) => row.reachedVendor && row.takesSlot);
  if (limit === null || taken.length <= limit) return [];
  return [{ sentence: 'calls', detail: `${what}: ${taken.length} of ${limit}`, calls: [] }];
}

function checkCounters({ counters, recorded }: RunResult): Violation[] {
  return counters.flatMap(({ holder, holderId, ceiling, start, end, settled, leased, leases }) => {
    const rows = recorded.filter(
      (row) =>
        row.startedAt >= start &&
        (end === null || row.startedAt < end) &&
        (holder === 'project' || (holder === 'key' ? row.isOfKey : row.source === holderId)),
    );
    const usage = rows.reduce((sum, row) => sum + usageOf(row, ceiling, holder), 0);
    const name = `${ceiling} of the ${holder}`;
    const wrong = [
      ...(settled === usage ? [] : [`${name}: settled ${settled}, but its calls used ${usage}`]),
      ...(leased === leases ? [] : [`${name}: leased ${leased}, but its leases are ${leases}`]),
    ];
    return wrong.map((detail) => ({ sentence: 'counted' as const, detail, calls: [] }));
  });
}

function usageOf(row: RecordedCall, ceiling: RecordedCounter['ceiling'], holder: RecordedCounter['holder']): number {
  if (ceiling === 'cost') return row.costNanos;
  if (!row.reachedVendor) return 0;
  if (ceiling === 'tpm') return totalTokens(row.tokens);
  return ceiling === 'calls' && holder === 'key' && !row.takesSlot ? 0 : 1;
}

/** Groups the accounts by the window in which their call started. */
function inWindows(accounts: readonly Account[], window: 'minute' | 'day' | 'month' | 'total'): readonly Account[][] {
  const length = { minute: 16, day: 10, month: 7, total: 0 }[window];
  return [...Map.groupBy(accounts, ({ row }) => new Date(row.startedAt).toISOString().slice(0, length)).values()];
}

export function format(nanos: number, tokens: number): string {
  return `$${(nanos / 1e9).toFixed(6)} for ${tokens} tokens`;
}
