/** Finds out which fields the vendors document. We read this from the type declarations of the official SDKs. */
import { readFileSync } from 'node:fs';
import type { JsonObject } from '../../../src/core/json/narrow.ts';

const declarations = {
  completions: 'openai/resources/chat/completions/completions.d.ts',
  shared: 'openai/resources/shared.d.ts',
  responses: 'openai/resources/responses/responses.d.ts',
  messages: '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts',
} as const;

/** An interface in the SDK's types, the request that has such an object, and a value with an effect for each field. */
export interface Place {
  readonly type: readonly [file: keyof typeof declarations, name: string];
  readonly request: JsonObject;
  /** The path of the object in the request. */
  readonly at: readonly (string | number)[];
  readonly values: JsonObject;
  /** The path of an object that is dropped as a whole, so that its fields aren't listed one by one. */
  readonly within?: string;
}

/**
 * Returns the fields of an interface that are sent in the body. Anthropic's SDK sends some parameters as headers, which
 * we can tell from its comments.
 */
export function documentedMembers(file: keyof typeof declarations, name: string): string[] {
  const source = readFileSync(new URL(`../../../node_modules/${declarations[file]}`, import.meta.url), 'utf8');
  const opening = new RegExp(`interface ${name}\\b[^{;]*\\{`).exec(source);
  if (!opening) throw new Error(`${declarations[file]} has no interface ${name}`);
  const members: string[] = [];
  let depth = 1;
  let comment = '';
  // At depth 1, each field consists of a comment and a name that ends with a colon.
  const tokens = /\/\*[\s\S]*?\*\/|[{}]|([A-Za-z_]\w*)\??:/g;
  tokens.lastIndex = opening.index + opening[0].length;
  for (let token = tokens.exec(source); token && depth > 0; token = tokens.exec(source)) {
    if (token[0] === '{') depth += 1;
    else if (token[0] === '}') depth -= 1;
    else if (depth === 1 && token[0].startsWith('/*')) comment = token[0];
    else if (depth === 1 && token[1] !== undefined) {
      if (!comment.includes('Header param:')) members.push(token[1]);
      comment = '';
    }
  }
  return members;
}
