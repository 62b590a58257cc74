/**
 * Stops waiting for something after a timeout or when a signal is aborted. The underlying work continues, but we ignore
 * its result.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** Settles like `work`. If that takes longer than `timeoutMs`, this returns or throws whatever `onTimeout` does. */
export async function withTimeout<Result, Late>(work: Promise<Result>, timeoutMs: number, onTimeout: () => Late): Promise<Result | Late> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  try {
    return await Promise.race([work, timeout.then(onTimeout)]);
  } finally {
    clearTimeout(timer);
  }
}

/** Settles like `work`, unless the signal is aborted first. In that case this rejects with the signal's reason. */
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

/** Sleeps for `delayMs`. Aborting the signal ends the sleep early. Never rejects. */
export async function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  await sleep(delayMs, undefined, { signal }).catch(() => undefined);
}
