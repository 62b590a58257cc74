/**
 * Waits that end early, either by a timeout or when a signal is aborted. Work that loses the race goes on, but its
 * result is dropped.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** Settles like `work`, or after `timeoutMs` with what `onTimeout` returns or throws. */
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

/** Settles like `work`, or rejects with the signal's reason if it's aborted first. */
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

/** Resolves after `delayMs`, or as soon as the signal is aborted. Never rejects. */
export async function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  await sleep(delayMs, undefined, { signal }).catch(() => undefined);
}
