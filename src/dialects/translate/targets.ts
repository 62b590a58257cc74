/** The model that a translated request is sent to. */
import type { ModelTraits } from '../../core/candidate.ts';

/** A model of the messages dialect. */
export interface MessagesTarget extends Pick<ModelTraits, 'supportsSchema' | 'thinking'> {
  readonly model: string;
  /** Used when the caller set no limit: the model's own limit, or 4,096. */
  readonly maxTokens: number;
  readonly stream: boolean;
}

/** A model of the chat dialect. */
export interface ChatTarget extends Pick<ModelTraits, 'reasons' | 'takesReasoning'> {
  readonly model: string;
  readonly stream: boolean;
  /** OpenAI's newer models accept only the default, `max_completion_tokens`; some other vendors only `max_tokens`. */
  readonly maxTokensField?: 'max_completion_tokens' | 'max_tokens';
}
