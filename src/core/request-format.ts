/** How requests to a provider differ from the provider's standard dialect. */
export interface RequestFormat {
  /**
   * Overrides the path of a route, such as `/chat/completions`. `{model}` is replaced with the provider's name for the
   * model. Null if the provider doesn't support the route.
   */
  readonly paths: Readonly<Record<string, string | null>>;
  /** Overrides the path for streamed requests, if it's different. */
  readonly streamPaths: Readonly<Record<string, string>>;
  /** Query parameters for all requests. */
  readonly query: Readonly<Record<string, string>>;
  /** Maps models to the provider's own names for them, such as deployment names. */
  readonly modelNames: Readonly<Record<string, string>>;
  /**
   * Which field limits the output tokens if we translate a request to the chat dialect, or add a limit to one. A request
   * that is already in this dialect keeps the caller's field. OpenAI's reasoning models reject `max_tokens`, while many
   * compatible vendors only accept `max_tokens`.
   */
  readonly maxTokensField: 'max_completion_tokens' | 'max_tokens';
  /** How all chat models of this vendor accept the reasoning of earlier turns. See `ModelTraits.takesReasoning`. */
  readonly takesReasoning: 'none' | 'details';
  /** Fields to strip from the body if the path names the model, because the path already has their value. */
  readonly membersInPath: readonly string[];
  /** Fields that we add to the body if the caller didn't set them. */
  readonly addedMembers: Readonly<Record<string, string>>;
  /** Null to forward `anthropic-beta` as it is. */
  readonly betaFlags: BetaFlags | null;
}

/**
 * The `anthropic-beta` flags that a provider knows. We filter the header, because clouds reject requests with unknown
 * flags.
 */
export interface BetaFlags {
  /** The flags that the provider accepts. Null to accept all of them. */
  readonly allowed: readonly string[] | null;
  /** The provider's own names for these flags. */
  readonly aliases: Readonly<Record<string, string>>;
  /** True if the body needs the flags as well (`anthropic_beta`). */
  readonly isInBody: boolean;
}

export const standardFormat: RequestFormat = {
  paths: {},
  streamPaths: {},
  query: {},
  modelNames: {},
  maxTokensField: 'max_tokens',
  takesReasoning: 'none',
  membersInPath: [],
  addedMembers: {},
  betaFlags: null,
};

/** The formats of a provider's images and speech. */
export interface MediaFormat {
  readonly imageShape: 'openai' | 'artifacts';
  /** Where the vendor runs jobs of the `artifacts` format. Absent if that's the origin of the base URL. */
  readonly imageJobsOrigin?: string;
  /**
   * True if we request base64 images with `response_format: b64_json`. We only send this field to models that accept
   * it.
   */
  readonly imageResponseFormat: boolean;
  readonly speechShape: 'openai' | 'voice';
  /** The media type of speech. Null to take it from the response. */
  readonly speechMediaType: string | null;
  /** Describes the requests of the `voice` format, which has the voice in the URL. */
  readonly speech: {
    readonly voiceIn: 'path' | 'query';
    readonly path: string;
    readonly textField: string;
    readonly body: Readonly<Record<string, unknown>>;
  };
}

export const standardMedia: MediaFormat = {
  imageShape: 'openai',
  imageResponseFormat: true,
  speechShape: 'openai',
  speechMediaType: null,
  speech: { voiceIn: 'path', path: '/text-to-speech/{voice}', textField: 'text', body: {} },
};

export function modelNameAt({ modelNames }: Pick<RequestFormat, 'modelNames'>, model: string): string {
  return Object.hasOwn(modelNames, model) ? (modelNames[model] ?? model) : model;
}
