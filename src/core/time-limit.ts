/**
 * Stops waiting for something after a timeout or when a signal is aborted. The underlying work continues, but we ignore
 * its result.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * We split each timeout into this many steps. If the process hasn't had any CPU time for a while, the current step's
 * timer fires before the event loop has read the responses that arrived in the meantime. The remaining steps give it
 * time to read them.
 */
export const timeoutSteps = 4;

/**
 * Settles like `work`, or with the result of `onTimeout` if that takes too long. While our own process is stalled,
 * hardly any time counts towards the timeout.
 */
export async function withTimeout<Result, Late>(work: Promise<Result>, timeoutMs: number, onTimeout: () => Late): Promise<Result | Late> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    const wait = (left: number): void => {
      timer = setTimeout(() => (left === 1 ? resolve() : wait(left - 1)), Math.ceil(timeoutMs / timeoutSteps));
    };
    wait(timeoutSteps);
  });
  try {
    return await Promise.race([work, timeout.then(onTimeout)]);
  } finally {
    clearTimeout(timer);
  }
}

/** Settles like `work`, or rejects with the signal's reason if the signal is aborted first. */
export async function raceAbort<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const finished = new AbortController();
  const aborted = new Promise<never>((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: finished.signal });
  });
  try {
    return await Promise.race([aborted, work]);
  } finally {
    finished.abort();
  }
}

export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Sleeps for `delayMs`, or until the signal is aborted. Never rejects. */
export async function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  await sleep(delayMs, undefined, { signal }).catch(() => undefined);
}
