/** How requests to a provider differ from the provider's standard dialect. */
export interface RequestFormat {
  /**
   * Overrides the paths of routes, such as `/chat/completions`. In a path, `{model}` stands for the provider's name for
   * the model. A path is null if the provider doesn't have the route.
   */
  readonly paths: Readonly<Record<string, string | null>>;
  readonly streamPaths: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** Maps our model names to the provider's, e.g. to the names of deployments. */
  readonly modelNames: Readonly<Record<string, string>>;
  /**
   * The field for the output limit in requests that we translate to the chat dialect, or to which we add a limit. If a
   * request is already in this dialect, we keep the field that the caller used. OpenAI's reasoning models reject
   * `max_tokens`, while many compatible vendors only accept `max_tokens`.
   */
  readonly maxTokensField: 'max_completion_tokens' | 'max_tokens';
  /**
   * How the vendor's chat models accept the reasoning of earlier turns. A model's own setting takes precedence (see
   * `ModelTraits.takesReasoning`).
   */
  readonly takesReasoning: 'none' | 'details';
  /**
   * Fields to remove from the body of requests with the model in their path, because the path already contains these
   * values.
   */
  readonly membersInPath: readonly string[];
  /** Fields that we add to the body if the caller didn't set them. */
  readonly addedMembers: Readonly<Record<string, string>>;
  /** Null to forward the caller's `anthropic-beta` header unchanged. */
  readonly betaFlags: BetaFlags | null;
}

/** How we filter the `anthropic-beta` header. Clouds reject requests with flags that they don't know. */
export interface BetaFlags {
  /** The flags that the provider accepts. Null to accept all of them. */
  readonly allowed: readonly string[] | null;
  readonly aliases: Readonly<Record<string, string>>;
  /** True if the provider expects the flags not only in the header, but also in the body (`anthropic_beta`). */
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

export interface MediaFormat {
  readonly imageShape: 'openai' | 'artifacts';
  /** Where to poll image jobs in the `artifacts` format. Defaults to the origin of the base URL. */
  readonly imageJobsOrigin?: string;
  /** True if we have to set `response_format: b64_json` to get base64 images. Not all models accept this field. */
  readonly imageResponseFormat: boolean;
  readonly speechShape: 'openai' | 'voice';
  /** The media type of the speech. Null to use the one in the vendor's response. */
  readonly speechMediaType: string | null;
  /** How we build requests in the `voice` format, in which the URL contains the voice. */
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
