/** The request of a dry run of recall, for a text or for the messages of a call. */
import { z } from 'zod';
import { scanObject } from '../../core/json/spans.ts';
import { bodyKeys } from '../../dialects/json/body-members.ts';
import { findRecallInsertion } from '../../dialects/prompt/recall-insertion.ts';
import { optionalSubject } from '../items/item-schemas.ts';

/** Unknown fields are ignored. */
export const dryRunRequestSchema = z
  .object({
    text: z.string().optional(),
    /** Of chat or messages. */
    messages: z.array(z.unknown()).optional(),
    subject: optionalSubject,
    dry_run: z.literal(true, 'must be true: memories are inserted by calls with the header x-gateway-memory: recall'),
  })
  .refine(({ text, messages }) => (text === undefined) !== (messages === undefined), 'must have either text or messages');

export type DryRunRequest = z.output<typeof dryRunRequestSchema>;

/** Returns the text that recall searches for in a call with these messages, or with this text as its only message; null without one. */
export function readUserText({ text, messages }: Pick<DryRunRequest, 'text' | 'messages'>): string | null {
  const body = Buffer.from(JSON.stringify({ messages: messages ?? [{ role: 'user', content: text }] }));
  return findRecallInsertion('chat', body, scanObject(body, bodyKeys))?.userText ?? null;
}
