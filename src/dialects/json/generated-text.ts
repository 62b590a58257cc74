/**
 * Counts the characters that a model generated, so that we can estimate the usage of a response that doesn't report it.
 * Vendors keep adding fields for new kinds of output, so we count every string unless we know that it holds something
 * else.
 */
import { asString, isObject, type JsonObject } from '../../core/json/narrow.ts';

/**
 * Fields whose strings the model didn't write, such as identifiers, API names, signatures, base64 of media, and
 * encrypted text.
 */
const label =
  /^(?:(?:.*_)?(?:id|type|role|status|object|model|format|signature|reason|data|b64)|b64_json|encrypted_content|obfuscation|detail)$/;
/**
 * We don't count objects and lists in these fields, because they quote sources, or repeat text that another field
 * contains.
 */
const quotingMembers: ReadonlySet<string> = new Set(['logprobs', 'annotations', 'citations', 'citation']);
/** Maps the type of an object to the field that contains its encrypted model output. */
const sealedMembers: ReadonlyMap<unknown, string> = new Map([
  ['redacted_thinking', 'data'],
  ['reasoning.encrypted', 'data'],
  ['reasoning', 'encrypted_content'],
  ['compaction', 'encrypted_content'],
]);
const dataUrl = /^data:[\w.+-]+\/[\w.+-]+[;,]/;

/**
 * Counts the characters in a delta, a message, or a list of either. A vendor may send the same text in several fields.
 * If you pass `counted`, we skip strings that are already in this set, and add the others to it.
 *
 * This isn't recursive, because a vendor's JSON may be nested deeper than the stack allows.
 */
export function countGeneratedText(value: unknown, counted?: Set<string>): number {
  let count = 0;
  let next = value;
  let stack: unknown[] | null = null;
  for (;;) {
    if (typeof next === 'string') count += countString(next, counted);
    else if (Array.isArray(next)) {
      stack ??= [];
      for (const element of next) stack.push(element);
    } else if (isObject(next)) {
      for (const name in next) {
        const member = next[name];
        if (typeof member === 'string') {
          if (!label.test(name) && !isImage(next, name)) count += countString(member, counted);
        } else if (typeof member !== 'object' || member === null || quotingMembers.has(name)) continue;
        else if (isObject(member) && (name === 'input' || name === 'arguments')) count += countJson(member);
        else {
          stack ??= [];
          stack.push(member);
        }
      }
      count += countSealed(next);
    }
    if (stack === null || stack.length === 0) return count;
    next = stack.pop();
  }
}

function countString(text: string, counted: Set<string> | undefined): number {
  if (counted?.has(text) || (text.startsWith('data:') && dataUrl.test(text))) return 0;
  counted?.add(text);
  return text.length;
}

function isImage({ type }: JsonObject, name: string): boolean {
  return name === 'result' && type === 'image_generation_call';
}

/**
 * Counts encrypted text, which vendors bill even though nobody else can read it. Base64 encodes three bytes as four
 * characters, so we count three quarters of its length.
 */
function countSealed(holder: JsonObject): number {
  const name = sealedMembers.get(holder.type);
  const sealed = name === undefined ? null : asString(holder[name]);
  return sealed === null ? 0 : Math.ceil((sealed.length * 3) / 4);
}

/**
 * Counts the characters that a tool call's arguments have as JSON, without escapes. The braces of an empty object don't
 * count, because every stream starts with an empty object.
 */
function countJson(value: JsonObject): number {
  let count = Object.keys(value).length === 0 ? -2 : 0;
  const stack: unknown[] = [value];
  while (stack.length > 0) {
    const next = stack.pop();
    if (typeof next === 'string') count += next.length + 2;
    else if (typeof next !== 'object' || next === null) count += String(next).length;
    else {
      const members = Object.entries(next);
      // brackets and commas
      count += Math.max(2, members.length + 1);
      for (const [name, member] of members) {
        if (!Array.isArray(next)) count += name.length + 3;
        stack.push(member);
      }
    }
  }
  return count;
}
