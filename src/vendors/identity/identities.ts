/**
 * Manages the cloud identities of all providers. Providers with the same settings share one. Identities survive a
 * reload of the configuration, so we don't have to get new credentials for it.
 */
import type { CloudIdentitySettings } from '../../core/cloud-identity.ts';
import type { Clock } from '../../core/time.ts';
import { createAwsLoader } from './aws.ts';
import { createAzureLoader } from './azure.ts';
import type { LoadCredential, VendorIdentity } from './credential.ts';
import { createGoogleLoader } from './google.ts';
import { exceptMetadataHosts } from './metadata-hosts.ts';
import { type CredentialState, createRefreshedCredential, type RefreshedCredential } from './refreshed-credential.ts';
import { createServerClock, type ServerClock } from './server-clock.ts';

export interface IdentitySource {
  readonly name: string;
  readonly identity: CloudIdentitySettings | null;
}

export interface ProviderIdentityState extends CredentialState {
  readonly provider: string;
  readonly type: CloudIdentitySettings['type'];
}

export type Identities = ReturnType<typeof createIdentities>;

export interface IdentitiesDeps {
  readonly clock: Clock;
  readonly logger: {
    warn(fields: { providers: readonly string[]; identity: string; problem: string; failures: number }, message: string): void;
    info(fields: { providers: readonly string[]; identity: string }, message: string): void;
  };
}

interface RunningIdentity extends VendorIdentity {
  readonly type: CloudIdentitySettings['type'];
  readonly credential: RefreshedCredential;
}

export function createIdentities({ clock, logger }: IdentitiesDeps) {
  /** Maps settings to the identity that uses them, so that providers with the same settings share it. */
  const running = new Map<string, RunningIdentity>();
  /** Maps each provider with an identity to its key in `running`. */
  let keys = new Map<string, string>();

  const start = (settings: CloudIdentitySettings, key: string): RunningIdentity => {
    const { type } = settings;
    exceptMetadataHosts(process.env);
    const serverClock = createServerClock(clock);
    const fields = () => ({ providers: [...keys].filter(([, used]) => used === key).map(([provider]) => provider), identity: type });
    /** The last state that was logged. An identity that fails keeps retrying, so only changes are logged. */
    let reported: 'working' | 'retrying' | 'invalid' = 'working';
    const credential = createRefreshedCredential({
      load: createLoader(settings, serverClock),
      name: type,
      clock: serverClock,
      onFailure(problem, { isValid, failures }) {
        const next = isValid ? 'retrying' : 'invalid';
        if (next === reported) return;
        reported = next;
        const line = { ...fields(), problem, failures };
        if (isValid) logger.warn(line, 'failed to refresh the cloud identity; retrying');
        else logger.warn(line, 'cloud identity has no valid credential; calls fail over');
      },
      onRecovered() {
        reported = 'working';
        logger.info(fields(), 'cloud identity refresh recovered');
      },
    });
    credential.start();
    return {
      type,
      credential,
      authorize: async (request) => credential.current().authorize(request),
      rejected({ headers }) {
        const { date } = headers;
        // AWS is the only cloud that rejects requests if our clock is wrong. Correct the clock before we get a new
        // token, because a token that's derived at the wrong time would be useless.
        if (type === 'aws') serverClock.setByDate(typeof date === 'string' ? date : null);
        credential.refreshEarly();
      },
      secrets: credential.secrets,
    };
  };

  const add = (sources: readonly IdentitySource[]): RefreshedCredential[] =>
    sources.flatMap(({ name, identity }) => {
      if (identity === null) return [];
      const key = JSON.stringify(Object.entries(identity).sort());
      keys.set(name, key);
      if (running.has(key)) return [];
      const started = start(identity, key);
      running.set(key, started);
      return [started.credential];
    });
  const firstAttempts = async (credentials: readonly RefreshedCredential[], limitMs: number): Promise<void> => {
    await Promise.all(credentials.map((credential) => credential.firstAttempt(limitMs)));
  };

  return {
    /**
     * Starts those identities of the providers that aren't running yet. Call this before `replace`, so that they
     * already have a credential when the providers are first used. Resolves when we've tried once to get a credential
     * for each of them, or after `limitMs`. Returns null if all identities are already running.
     */
    prepare(sources: readonly IdentitySource[], limitMs: number): Promise<void> | null {
      const added = add(sources);
      return added.length === 0 ? null : firstAttempts(added, limitMs);
    },
    /** Starts the identities of these providers, and closes identities that no provider uses any more. */
    replace(sources: readonly IdentitySource[]): void {
      keys = new Map();
      add(sources);
      const used = new Set(keys.values());
      for (const [key, { credential }] of running) {
        if (used.has(key)) continue;
        credential.stop();
        running.delete(key);
      }
    },
    /** Returns a provider's identity, or null if it has none. Pass the provider to `replace` first. */
    find: (provider: string): VendorIdentity | null => running.get(keys.get(provider) ?? '') ?? null,
    firstAttempts: (limitMs: number): Promise<void> =>
      firstAttempts(
        [...running.values()].map(({ credential }) => credential),
        limitMs,
      ),
    states: (): readonly ProviderIdentityState[] =>
      [...keys].flatMap(([provider, key]) => {
        const identity = running.get(key);
        return identity ? [{ provider, type: identity.type, ...identity.credential.state() }] : [];
      }),
    close(): void {
      for (const { credential } of running.values()) credential.stop();
    },
  };
}

function createLoader(settings: CloudIdentitySettings, clock: ServerClock): LoadCredential {
  switch (settings.type) {
    case 'aws':
      return createAwsLoader(settings, clock);
    case 'google':
      return createGoogleLoader(settings);
    case 'azure':
      return createAzureLoader(settings);
  }
}
