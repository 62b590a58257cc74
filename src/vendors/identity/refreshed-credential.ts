/**
 * Keeps a credential valid. After half to two thirds of its lifetime, we get the next one in the background. That way,
 * a cloud can be down for a long time before any call notices. Until then we keep the current credential and retry with
 * a backoff. All delays have jitter, because the processes of a service start at the same time.
 */
import { type BackgroundLoop, createBackgroundLoop } from '../../core/background-loop.ts';
import { VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import { pause, raceAbort, withTimeout } from '../../core/time-limit.ts';
import type { Credential, LoadCredential } from './credential.ts';
import { describeIdentityError } from './describe-identity-error.ts';

export type RefreshedCredential = ReturnType<typeof createRefreshedCredential>;

export interface CredentialState {
  readonly isValid: boolean;
  /** How long the credential is still valid. 0 if there's no valid one, null if it never expires. */
  readonly remainingMs: number | null;
  readonly failures: number;
  /** Why the last attempt failed, without any secrets. Null if it succeeded. */
  readonly problem: string | null;
}

export interface RefreshOptions {
  readonly load: LoadCredential;
  /** The name of the identity in messages, e.g. `aws`. */
  readonly name: string;
  readonly clock: Clock;
  readonly onFailure?: (problem: string, state: CredentialState) => void;
  readonly onRecovered?: () => void;
}

const loadTimeoutMs = 30_000;
const retries = { initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.3 };
const minDelayMs = 1_000;
/**
 * The longest delay before a new credential is requested, even if the current one doesn't expire. Somebody may have
 * replaced the file that it comes from.
 */
const maxDelayMs = 3_600_000;
/**
 * The minimum interval between early refreshes. We don't refresh after every rejected request, because the vendor may
 * have a reason that a new credential doesn't change.
 */
const earlyRefreshIntervalMs = 300_000;

export function createRefreshedCredential({ load, name, clock, onFailure, onRecovered }: RefreshOptions) {
  let credential: Credential | null = null;
  let previousSecrets: readonly string[] = [];
  let loadedAtMs = 0;
  let failures = 0;
  let problem: string | null = null;
  let lastEarlyRefreshMs = Number.NEGATIVE_INFINITY;
  const started = Promise.withResolvers<void>();

  /** A credential counts as expired a little early, because requests take a while to arrive. */
  const remainingMs = (): number | null => {
    if (credential === null) return 0;
    if (credential.expiresAtMs === null) return null;
    const marginMs = Math.min(10_000, (credential.expiresAtMs - loadedAtMs) / 10);
    return Math.max(0, credential.expiresAtMs - marginMs - clock.now());
  };
  const state = (): CredentialState => {
    const remaining = remainingMs();
    return { isValid: remaining === null || remaining > 0, remainingMs: remaining, failures, problem };
  };

  const refresh = async (signal: AbortSignal): Promise<number> => {
    const next = await withTimeout(raceAbort(load(), signal), loadTimeoutMs, () => {
      throw new Error(`no response within ${loadTimeoutMs / 1_000} s`);
    });
    const now = clock.now();
    if (next.expiresAtMs !== null && next.expiresAtMs <= now) {
      throw new Error("the new credential has already expired; check this machine's clock");
    }
    previousSecrets = credential?.secrets ?? [];
    credential = next;
    loadedAtMs = now;
    problem = null;
    const lifetimeMs = next.expiresAtMs === null ? maxDelayMs : next.expiresAtMs - now;
    return Math.max(minDelayMs, Math.min(maxDelayMs, lifetimeMs * (0.5 + Math.random() / 6)));
  };

  const loop: BackgroundLoop = createBackgroundLoop({
    run: (signal) => refresh(signal).finally(started.resolve),
    intervalMs: maxDelayMs,
    backoff: retries,
    onFailure(error) {
      failures += 1;
      problem = describeIdentityError(error);
      onFailure?.(problem, state());
    },
    ...(onRecovered && { onRecovered }),
  });

  return {
    /** Throws VendorError if there's no valid credential. */
    current(): Credential {
      if (credential === null || remainingMs() === 0) throw noCredential(name, problem, credential !== null);
      return credential;
    },
    /** Call this if the vendor has rejected the credential, so that we request a new one before the old one expires. */
    refreshEarly(): void {
      const now = performance.now();
      if (loop.isFailing || now - lastEarlyRefreshMs < earlyRefreshIntervalMs) return;
      lastEarlyRefreshMs = now;
      loop.wake();
    },
    secrets: (): readonly string[] => [...(credential?.secrets ?? []), ...previousSecrets],
    state,
    start: (): void => loop.start(),
    /** Resolves when we've tried once to get a credential, whether it worked or not. Waits for `limitMs` at most. */
    async firstAttempt(limitMs: number): Promise<void> {
      const finished = new AbortController();
      await Promise.race([started.promise.then(() => finished.abort()), pause(limitMs, finished.signal)]);
    },
    stop: (): void => void loop.stop(),
  };
}

function noCredential(name: string, problem: string | null, isExpired: boolean): VendorError {
  const message = `the gateway has no valid credential for its ${name} identity`;
  const reason = problem ?? (isExpired ? 'it has expired' : 'the first credential has not arrived yet');
  return new VendorError('connect', message, { isWithoutCredential: true, detail: `${message}: ${reason}` });
}
