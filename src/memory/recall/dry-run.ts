/** Parses the request of a recall dry run, which contains either a text or the messages of a call. */
import { z } from 'zod';
import { scanObject } from '../../core/json/spans.ts';
import { bodyKeys } from '../../dialects/json/body-members.ts';
import { findRecallInsertion } from '../../dialects/prompt/recall-insertion.ts';
import { optionalSubject } from '../items/item-schemas.ts';

/**
 * Ignores unknown fields. The `text` of the output is what recall would search for in a call with these messages. It's
 * null if no user message has any text.
 */
export const dryRunRequestSchema = z
  .object({
    /** Treated as the only user message. */
    text: z.string().optional(),
    /** In the format of chat or messages. */
    messages: z.array(z.unknown()).optional(),
    subject: optionalSubject,
    dry_run: z.literal(
      true,
      'must be true, because this route only supports dry runs; to insert memories, call a model with the header x-gateway-memory: recall',
    ),
  })
  .refine(({ text, messages }) => (text === undefined) !== (messages === undefined), 'must have either text or messages')
  .transform(({ text, messages, subject }, context) => {
    try {
      return { subject, text: readUserText(messages ?? [{ role: 'user', content: text }]) };
    } catch (error) {
      // JSON.stringify overflows the stack if the messages are nested too deeply.
      if (!(error instanceof RangeError)) throw error;
      context.addIssue({ code: 'custom', path: ['messages'], message: 'must not be nested so deeply' });
      return z.NEVER;
    }
  });

export type DryRunRequest = z.output<typeof dryRunRequestSchema>;

function readUserText(messages: readonly unknown[]): string | null {
  const body = Buffer.from(JSON.stringify({ messages }));
  return findRecallInsertion('chat', body, scanObject(body, bodyKeys))?.userText ?? null;
}
