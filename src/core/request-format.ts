/** How the requests to a provider differ from the standard ones of its dialect. */
export interface RequestFormat {
  /**
   * Replaces the path of a route, such as `/chat/completions`. `{model}` stands for the model's name at the provider.
   * Null if the provider doesn't have the route.
   */
  readonly paths: Readonly<Record<string, string | null>>;
  /** Replaces the path of streamed requests, if it's a different one. */
  readonly streamPaths: Readonly<Record<string, string>>;
  /** Appended to every address. */
  readonly query: Readonly<Record<string, string>>;
  /** Maps models to their names at the provider, such as the names of deployments. */
  readonly modelNames: Readonly<Record<string, string>>;
  /**
   * The name of the token limit in the chat dialect. OpenAI's reasoning models reject `max_tokens`, and many compatible
   * vendors accept nothing else.
   */
  readonly maxTokensField: 'max_completion_tokens' | 'max_tokens';
  /** The form of reasoning that all chat models of the vendor accept. See `ModelTraits.takesReasoning`. */
  readonly takesReasoning: 'none' | 'details';
  /** Members that the body can't have, because the path says the same. */
  readonly omittedMembers: readonly string[];
  /** Members that we add to the body if the caller hasn't set them. */
  readonly addedMembers: Readonly<Record<string, string>>;
  /** Null if we forward `anthropic-beta` as it is. */
  readonly betaFlags: BetaFlags | null;
}

/** The flags of `anthropic-beta` that a provider knows, because clouds reject requests with others. */
export interface BetaFlags {
  /** Flags that the provider accepts. Null to accept all of them. */
  readonly allowed: readonly string[] | null;
  /** Maps flags to the provider's names for them. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Whether the body repeats the flags as `anthropic_beta`. */
  readonly isInBody: boolean;
}

export const standardFormat: RequestFormat = {
  paths: {},
  streamPaths: {},
  query: {},
  modelNames: {},
  maxTokensField: 'max_tokens',
  takesReasoning: 'none',
  omittedMembers: [],
  addedMembers: {},
  betaFlags: null,
};

/** Returns the provider's name for a model. */
export function modelNameAt({ modelNames }: Pick<RequestFormat, 'modelNames'>, model: string): string {
  return Object.hasOwn(modelNames, model) ? (modelNames[model] ?? model) : model;
}
