/** Parses the request of a recall dry run. It has either a text or the messages of a call. */
import { z } from 'zod';
import { scanObject } from '../../core/json/spans.ts';
import { bodyKeys } from '../../dialects/json/body-members.ts';
import { findRecallInsertion } from '../../dialects/prompt/recall-insertion.ts';
import { optionalSubject } from '../items/item-schemas.ts';

/**
 * The body of a dry run. Unknown fields are ignored. In the parsed result, `text` is the query that recall would use
 * for these messages, or null if no user message has text.
 */
export const dryRunRequestSchema = z
  .object({
    /** The text to recall memories for. It's treated like the only user message of a call. */
    text: z.string().optional(),
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
      context.addIssue({ code: 'custom', path: ['messages'], message: 'is nested too deeply' });
      return z.NEVER;
    }
  });

export type DryRunRequest = z.output<typeof dryRunRequestSchema>;

function readUserText(messages: readonly unknown[]): string | null {
  const body = Buffer.from(JSON.stringify({ messages }));
  return findRecallInsertion('chat', body, scanObject(body, bodyKeys))?.userText ?? null;
}
