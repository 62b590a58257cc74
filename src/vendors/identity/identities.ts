/**
 * Manages the cloud identities of all providers. Providers with the same settings share an identity. Identities survive
 * a reload of the configuration, so a reload doesn't request new credentials.
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

/** The settings that identities need from a configured provider. */
export interface IdentitySource {
  readonly name: string;
  readonly identity: CloudIdentitySettings | null;
}

export interface ProviderIdentityState extends CredentialState {
  readonly provider: string;
  readonly type: CloudIdentitySettings['type'];
}

export interface Identities {
  /**
   * Starts the new identities of these providers, before `replace` is called with the same providers. Resolves once
   * each identity has tried to get its first credential. Returns null if there are no new identities.
   */
  prepare(sources: readonly IdentitySource[], limitMs: number): Promise<void> | null;
  /** Starts the identities of these providers, and closes the ones that are no longer used. */
  replace(sources: readonly IdentitySource[]): void;
  /** Returns the identity of a provider, or null if it has none. The provider must have been passed to `replace`. */
  find(provider: string): VendorIdentity | null;
  /** Waits for each identity's first try to get a credential. */
  firstAttempts(limitMs: number): Promise<void>;
  states(): readonly ProviderIdentityState[];
  close(): void;
}

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

export function createIdentities({ clock, logger }: IdentitiesDeps): Identities {
  /** Keyed by the settings of the identity, so that providers with the same settings share one. */
  const running = new Map<string, RunningIdentity>();
  /** Maps each provider that has an identity to the identity's key in `running`. */
  let keys = new Map<string, string>();

  const start = (settings: CloudIdentitySettings, key: string): RunningIdentity => {
    const { type } = settings;
    exceptMetadataHosts(process.env);
    const serverClock = createServerClock(clock);
    const fields = () => ({ providers: [...keys].filter(([, used]) => used === key).map(([provider]) => provider), identity: type });
    /** The last logged state. Failing identities retry often, so we only log changes. */
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
        if (isValid) logger.warn(line, 'cloud identity not refreshed, retrying');
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
        // Only AWS rejects requests because our clock is wrong. Correct the clock first, because a token that is
        // derived at the wrong time would be useless.
        if (type === 'aws') serverClock.setByDate(typeof date === 'string' ? date : null);
        credential.refreshEarly();
      },
      secrets: credential.secrets,
    };
  };

  /** Starts the identities that aren't running yet, and returns their credentials. */
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
    prepare(sources, limitMs) {
      const added = add(sources);
      return added.length === 0 ? null : firstAttempts(added, limitMs);
    },
    replace(sources) {
      keys = new Map();
      add(sources);
      const used = new Set(keys.values());
      for (const [key, { credential }] of running) {
        if (used.has(key)) continue;
        credential.stop();
        running.delete(key);
      }
    },
    find: (provider) => running.get(keys.get(provider) ?? '') ?? null,
    firstAttempts: (limitMs) =>
      firstAttempts(
        [...running.values()].map(({ credential }) => credential),
        limitMs,
      ),
    states: () =>
      [...keys].flatMap(([provider, key]) => {
        const identity = running.get(key);
        return identity ? [{ provider, type: identity.type, ...identity.credential.state() }] : [];
      }),
    close() {
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
