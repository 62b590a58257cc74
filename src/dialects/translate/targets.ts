import type { ModelTraits } from '../../core/candidate.ts';

export interface MessagesTarget extends Pick<ModelTraits, 'supportsSchema' | 'thinking'> {
  readonly model: string;
  /** We use this output limit if the caller doesn't set one. It's 4,096 if the model's own limit is unknown. */
  readonly maxTokens: number;
  readonly stream: boolean;
}

export interface ChatTarget extends Pick<ModelTraits, 'reasons' | 'takesReasoning'> {
  readonly model: string;
  readonly stream: boolean;
  /**
   * `max_completion_tokens` is the default, because OpenAI's newer models don't accept anything else. Some other
   * vendors only accept `max_tokens`.
   */
  readonly maxTokensField?: 'max_completion_tokens' | 'max_tokens';
}
