/** Describes the models that requests are translated for. */
import type { ModelTraits } from '../../core/candidate.ts';

/** A model that speaks the messages dialect. */
export interface MessagesTarget extends Pick<ModelTraits, 'supportsSchema' | 'thinking'> {
  readonly model: string;
  /** Output limit for callers that don't set one: the model's own, or 4,096. */
  readonly maxTokens: number;
  readonly stream: boolean;
}

/** A model that speaks the chat dialect. */
export interface ChatTarget extends Pick<ModelTraits, 'reasons' | 'takesReasoning'> {
  readonly model: string;
  readonly stream: boolean;
  /**
   * OpenAI's newer models only accept `max_completion_tokens`, which is the default. Some other vendors only accept
   * `max_tokens`.
   */
  readonly maxTokensField?: 'max_completion_tokens' | 'max_tokens';
}
