/**
 * Translates a request between the chat and the messages dialect. This runs in the low-priority thread if it's slow.
 */
import type { Candidate } from '../../core/candidate.ts';
import type { RequestFormat } from '../../core/request-format.ts';
import { rejectUntranslatable } from '../../dialects/contract/untranslatable.ts';
import { asLosslessObject } from '../../dialects/json/lossless-json.ts';
import { parseLossless } from '../../dialects/json/parse-lossless.ts';
import { requestToMessages } from '../../dialects/translate/chat-to-messages.ts';
import { requestToChat } from '../../dialects/translate/messages-to-chat.ts';
import { createChanges, type RequestChanges } from '../../dialects/translate/request-changes.ts';

export interface TranslationTarget
  extends Pick<Candidate, 'dialect' | 'model' | 'traits'>,
    Pick<RequestFormat, 'takesReasoning' | 'maxTokensField'> {
  /**
   * The output limit that we send to a messages vendor if the caller didn't set one. Callers of the messages route
   * always have to set one.
   */
  readonly maxTokens: number;
  readonly stream: boolean;
}

export interface TranslatedRequest {
  readonly body: Buffer;
  readonly changes: RequestChanges;
  /** True if the caller didn't ask for thinking. */
  readonly hidesThinking: boolean;
}

/** Throws UntranslatableError if the vendor's dialect can't express the request. */
export function translateRequest(bytes: Buffer, target: TranslationTarget): TranslatedRequest {
  const { dialect, model, traits, takesReasoning, maxTokensField, maxTokens, stream } = target;
  // The JSON has already been validated, so parsing only fails if it's too deep or too large.
  const body = asLosslessObject(
    parseLossless(bytes.toString('utf8')) ??
      rejectUntranslatable('the body is nested too deeply, or has too many values, to be translated to the other dialect'),
  );
  const changes = createChanges();
  const translated =
    dialect === 'messages'
      ? requestToMessages(body, { ...traits, model, stream, maxTokens }, changes)
      : requestToChat(body, { takesReasoning, ...traits, model, stream, maxTokensField }, changes);
  const thinking = asLosslessObject(body.thinking).type;
  return {
    body: Buffer.from(JSON.stringify(translated)),
    changes,
    hidesThinking: thinking !== 'enabled' && thinking !== 'adaptive',
  };
}
