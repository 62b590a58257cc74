/**
 * Chooses between the members of a pool, i.e. the keys, deployments or regions of one provider.
 *
 * The turns of a conversation go to the same member, because cached input is much cheaper. We use weighted rendezvous
 * hashing, so if a member comes or goes, only its own share of the conversations moves. A member that has too many
 * requests in flight comes after the others. Members of one account have the same prompt cache, so we choose an account
 * first, and then one of its members.
 *
 * @see docs/architecture/routing-and-failover.md#pools
 */
import { LRUCache } from 'lru-cache';
import type { PoolMember } from '../core/candidate.ts';
import { sha256 } from '../core/sha256.ts';

/** What we can choose by weight, which is either an account or a member of it. */
interface Choice {
  readonly hash: number;
  readonly weight: number;
  /** The keys of the members. */
  readonly keys: readonly string[];
}

interface MemberChoice extends Choice {
  readonly member: PoolMember;
}

interface AccountChoice extends Choice {
  readonly members: readonly MemberChoice[];
}

export interface Pool {
  readonly members: readonly PoolMember[];
  /** Only contains accounts and members that take new calls. */
  readonly accounts: readonly AccountChoice[];
}

/** A member in the configuration. */
export interface PoolSource {
  readonly member: string;
  readonly weight: number;
  readonly account: string | null;
}

export function buildPool(provider: string, sources: readonly PoolSource[]): Pool {
  const accountOf = ({ account, member }: PoolSource): string => (account === null ? `member:${member}` : `account:${account}`);
  const keyOf = ({ member }: PoolSource): string => memberKey(provider, member);
  const byAccount = Map.groupBy(sources, accountOf);
  const toMember = (source: PoolSource): PoolMember => ({
    name: source.member,
    key: keyOf(source),
    account: accountOf(source),
    accountKeys: (byAccount.get(accountOf(source)) ?? []).map(keyOf),
  });
  const accounts = [...byAccount].flatMap(([account, all]): AccountChoice[] => {
    const members = all
      .filter(({ weight }) => weight > 0)
      .map((source) => ({ hash: hashText(keyOf(source)), weight: source.weight, keys: [keyOf(source)], member: toMember(source) }));
    if (members.length === 0) return [];
    const weight = members.reduce((sum, { weight: each }) => sum + each, 0);
    return [{ hash: hashText(`${provider}/${account}`), weight, keys: members.flatMap(({ keys }) => keys), members }];
  });
  return { members: sources.map(toMember), accounts };
}

export function memberKey(provider: string, member: string): string {
  return `${provider}/${member}`;
}

/** Returns the names of a provider's circuit breakers, which are those of its members if it has a pool. */
export function breakerKeys({ pools }: { readonly pools: ReadonlyMap<string, Pool> }, provider: string): readonly string[] {
  return pools.get(provider)?.members.map(({ key }) => key) ?? [provider];
}

/** Counts the requests that each member has in flight in this process. Reloads don't reset it. */
export interface MemberLoads {
  count(key: string): number;
  /** Counts a request to a member. The caller has to call the returned function once, when the request has ended. */
  begin(key: string): () => void;
}

/** What a process knows about the members of its pools. It outlives reloads. */
export interface PoolState {
  readonly loads: MemberLoads;
  /** The keys of the members that keep responses of `/v1/responses`, by the ids of the responses. */
  readonly responses: LRUCache<string, string>;
}

const maxResponses = 50_000;

export function createPoolState(): PoolState {
  return { loads: createMemberLoads(), responses: new LRUCache({ max: maxResponses }) };
}

export function createMemberLoads(): MemberLoads {
  const loads = new Map<string, number>();
  return {
    count: (key) => loads.get(key) ?? 0,
    begin(key) {
      loads.set(key, (loads.get(key) ?? 0) + 1);
      let isEnded = false;
      return () => {
        if (isEnded) return;
        isEnded = true;
        const left = (loads.get(key) ?? 0) - 1;
        if (left > 0) loads.set(key, left);
        else loads.delete(key);
      };
    },
  };
}

/** Identifies the conversation of a call, or is a random number if it has none. */
export interface Affinity {
  readonly hash: number;
  /** The key of the member that keeps the state that the call refers to. Null if there is none, or if we don't know it. */
  readonly member: string | null;
}

/** Returns the members of a pool in the order in which the call should try them. */
export function orderMembers({ accounts, members }: Pool, { hash, member }: Affinity, loads: MemberLoads): readonly PoolMember[] {
  const ordered = rank(accounts, hash, loads).flatMap((account) => rank(account.members, hash, loads).map((choice) => choice.member));
  // Even a member without a weight still gets the calls that refer to its state, which no other account has.
  const bound = member === null ? undefined : members.find(({ key }) => key === member);
  return bound ? [bound, ...ordered.filter(({ key, account }) => key !== bound.key && account === bound.account)] : ordered;
}

const maxLoadFactor = 1.25;
/**
 * A member may always have this many requests more than its share. If there are only a few requests, their number
 * varies so much that conversations would keep moving.
 */
const extraRequests = 12;

function rank<Each extends Choice>(choices: readonly Each[], hash: number, loads: MemberLoads): readonly Each[] {
  if (choices.length === 1) return choices;
  const inFlight = choices.map(({ keys }) => keys.reduce((sum, key) => sum + loads.count(key), 0));
  const requests = inFlight.reduce((sum, count) => sum + count, 1);
  const weights = choices.reduce((sum, { weight }) => sum + weight, 0);
  return choices
    .map((choice, index) => {
      const share = (requests * choice.weight) / weights;
      const isFull = (inFlight[index] ?? 0) + 1 > Math.max(share * maxLoadFactor, share + extraRequests);
      return { choice, isFull, distance: -Math.log(uniform(hash ^ choice.hash)) / choice.weight };
    })
    .sort((one, other) => Number(one.isFull) - Number(other.isFull) || one.distance - other.distance)
    .map(({ choice }) => choice);
}

/** Returns 32 bits of a hash. */
export function hashText(text: string | Buffer): number {
  return sha256(text).readUInt32LE();
}

/** Mixes the bits of a number like MurmurHash3 and returns a number between 0 and 1, without the two. */
function uniform(bits: number): number {
  let mixed = bits;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  mixed ^= mixed >>> 16;
  return ((mixed >>> 0) + 0.5) / 2 ** 32;
}
