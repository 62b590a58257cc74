/**
 * Chooses between the members of a pool, i.e. between keys, deployments or regions of the same provider. All turns of a
 * conversation go to the same member, because cached input is much cheaper. We use weighted rendezvous hashing, so that
 * adding or removing a member only moves the conversations that have to move. If a member has too many requests in
 * flight, the others come first. Members of one account share a prompt cache, so we choose an account first and then
 * one of its members.
 *
 * @see docs/architecture/routing-and-failover.md#pools
 */
import type { LRUCache } from 'lru-cache';
import type { PoolMember } from '../core/candidate.ts';
import { createLruCache } from '../core/lru-cache.ts';
import { sha256 } from '../core/sha256.ts';

interface Choice {
  readonly hash: number;
  readonly weight: number;
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
  /**
   * The accounts that get new calls. Members with a weight of 0 are left out, and so are accounts that only have such
   * members.
   */
  readonly accounts: readonly AccountChoice[];
}

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

export function breakerKeys({ pools }: { readonly pools: ReadonlyMap<string, Pool> }, provider: string): readonly string[] {
  return pools.get(provider)?.members.map(({ key }) => key) ?? [provider];
}

/** Counts this process's requests in flight to each pool member. A configuration reload doesn't reset the counts. */
export interface MemberLoads {
  count(key: string): number;
  /** Counts a request to a member. Returns a function that you have to call once, when the request has ended. */
  begin(key: string): () => void;
}

/** What a process remembers about its pools. A reload of the configuration doesn't reset it. */
export interface PoolState {
  readonly loads: MemberLoads;
  /** Maps the id of a stored response (`/v1/responses`) to the key of the pool member that stores it. */
  readonly responses: LRUCache<string, string>;
}

const maxResponses = 50_000;

export function createPoolState(): PoolState {
  return { loads: createMemberLoads(), responses: createLruCache(maxResponses) };
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

/** `hash` is the same for all calls of a conversation, and random for other calls. */
export interface Affinity {
  readonly hash: number;
  /**
   * If the call refers to stored state, e.g. an earlier response, the key of the pool member that has it. Null if
   * there's no such state or we don't know where it is.
   */
  readonly member: string | null;
}

export function orderMembers({ accounts, members }: Pool, { hash, member }: Affinity, loads: MemberLoads): readonly PoolMember[] {
  const ordered = rank(accounts, hash, loads).flatMap((account) => rank(account.members, hash, loads).map((choice) => choice.member));
  // Stored state only exists in one account, so the call has to go there even if the member's weight is 0.
  const bound = member === null ? undefined : members.find(({ key }) => key === member);
  return bound ? [bound, ...ordered.filter(({ key, account }) => key !== bound.key && account === bound.account)] : ordered;
}

const maxLoadFactor = 1.25;
/**
 * How many requests a member may have beyond its share. Without this slack, random differences would move conversations
 * back and forth between members when there are only a few requests.
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

export function hashText(text: string | Buffer): number {
  return sha256(text).readUInt32LE();
}

/** Scrambles the bits with the finalizer of MurmurHash3. Returns a number that's strictly between 0 and 1. */
function uniform(bits: number): number {
  let mixed = bits;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  mixed ^= mixed >>> 16;
  return ((mixed >>> 0) + 0.5) / 2 ** 32;
}
