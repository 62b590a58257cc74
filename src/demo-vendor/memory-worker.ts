/**
 * Pretends to be a memory model by deriving memories from conversations. That way, learning works even without a real
 * vendor. We recognize a memory prompt by its response schema.
 */
import { asObject, asObjects, asString, isObject, type JsonObject, parseObject } from './json.ts';
import { termsOf } from './tokens.ts';

/** Returns null if this isn't a memory prompt. */
export function respondToMemoryPrompt(schema: JsonObject, text: string): object | null {
  const properties = asObject(schema.properties);
  if (!isObject(properties.memories) && !(isObject(properties.merges) && isObject(properties.facts))) return null;
  const prompt = parseObject(Buffer.from(text));
  if (prompt === null) return null;
  return isObject(properties.memories) ? { memories: findMemories(prompt) } : consolidate(prompt);
}

/** Returns a memory for each sentence in which a user says "I", "my", "we" or "our". Skips questions. */
function findMemories({ conversations }: JsonObject): object[] {
  const said = asObjects(conversations)
    .flatMap((conversation) => asObjects(conversation.messages))
    .filter(({ role }) => role === 'user')
    .flatMap(({ text }) => asString(text).match(/[^.!?\n]+[.!?]?/g) ?? [])
    .map((sentence) => sentence.trim())
    .filter((sentence) => /\b(I|my|we|our)\b/i.test(sentence) && !sentence.endsWith('?'));
  return [...new Set(said)].map((sentence) => ({
    evidence: sentence,
    text: sentence,
    names: [],
    kind: /\b(like|love|prefer|hate)s?\b/i.test(sentence) ? 'preference' : 'fact',
    importance: 3,
  }));
}

/**
 * Answers a prompt for consolidating memories. We merge memories that consist of the same words in any order, and
 * extract facts from sentences such as "I live in Oslo". The page just lists all memories.
 */
function consolidate({ new: added, known, facts }: JsonObject): object {
  const fresh = asObjects(added);
  const all = [...asObjects(known), ...fresh];
  const merges = fresh.flatMap((item) => {
    const same = all.filter((other) => other.id !== item.id && hasSameTerms(other.text, item.text));
    return same.length === 0 ? [] : [{ reason: 'the same terms', keep: same[0]?.id, drop: [item.id] }];
  });
  const dropped = new Set(merges.flatMap(({ drop }) => drop));
  const found = fresh.flatMap((item) => {
    const match = /^(?:I|We|([A-Z]\w+)) (live in|work at|moved to|am called)s? (.+?)[.!]?$/.exec(asString(item.text));
    if (match === null) return [];
    const [, person, verb = '', target = ''] = match;
    const source = person ?? 'user';
    const relation = verb === 'moved to' ? 'live_in' : verb.replace(' ', '_');
    const before = asObjects(facts).find((fact) => fact.source === source && fact.relation === relation && fact.target !== target);
    const reason = before ? 'one can hold at a time' : 'nothing said so before';
    return [{ item_id: item.id, source, relation, target, fact: asString(item.text), reason, replaces: before?.id ?? null }];
  });
  const lines = all.filter(({ id }) => !dropped.has(id)).map(({ text }) => `- ${asString(text)}`);
  return { merges, facts: found, page: lines.join('\n') };
}

function hasSameTerms(one: unknown, other: unknown): boolean {
  const [left, right] = [one, other].map((text) => termsOf(asString(text)).toSorted().join(' '));
  return left === right;
}
