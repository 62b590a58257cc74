/**
 * The description of a vendor. Each vendor has a file in this folder, and `known-vendors.ts` lists them.
 * docs/vendors.md explains how to add one.
 */
import type { Route } from '../../core/call.ts';
import type { MediaFormat, RequestFormat } from '../../core/request-format.ts';
import type { ProviderConfig, ProviderDialect } from '../config.ts';
import type { FileValues, ModelValues } from '../file-schema.ts';
import type { VariableName } from '../variables.ts';

export interface VendorDescription {
  /** The name for this vendor in `gateway vendors add` and in the `vendor` setting of a provider. */
  readonly name: string;
  readonly title: string;
  readonly documentation: string;
  /**
   * The vendor's hosts, by default the one in `baseUrl`. Required if `baseUrl` has parameters, and empty if the address
   * doesn't reveal the vendor. We assume that a provider on one of these hosts belongs to the vendor, unless its row
   * says otherwise. `*` stands for one or more labels of the name. If a regional host or a reseller has different
   * prices, it needs a description of its own.
   */
  readonly hosts?: readonly string[];
  /** Distinguishes vendors on the same host, such as Claude and Gemini on Vertex AI. Matches all paths by default. */
  readonly path?: RegExp;
  /**
   * The base URL. Placeholders like `{name}` stand for values that only the operator knows, and `parameters` describes
   * them.
   */
  readonly baseUrl: string;
  readonly parameters?: Readonly<Record<string, VendorParameter>>;
  /**
   * Corrects the base URL after the placeholders were filled in, because some of their values need a different host.
   */
  readonly correctBaseUrl?: (url: string) => string;
  readonly dialect: ProviderDialect;
  /** The vendor's routes. Only needed if they differ from the default of the dialect. */
  readonly serves?: readonly Route[];
  /**
   * Whether the vendor has the responses route. Ignored if `serves` is set. In the chat dialect, the default is
   * `unknown`.
   */
  readonly responses?: ProviderConfig['responses'];
  /** The header for the API key. Defaults to the usual header of the dialect. */
  readonly auth?: ProviderConfig['auth'];
  /** False if calls work without an API key or a cloud identity. Defaults to true. */
  readonly needsKey?: boolean;
  /** The kind of cloud identity that the vendor accepts in place of an API key. */
  readonly identity?: CloudIdentity;
  /**
   * False if the names in the response of `/models` can't be used in calls, for example because calls have to name a
   * deployment.
   */
  readonly listsModels?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly requests?: Partial<RequestFormat>;
  /** How requests for images and speech look. Defaults to OpenAI's formats. */
  readonly media?: Partial<MediaFormat>;
  /**
   * The vendor's models at list prices. `../starter-models.ts` says which units we use and when we looked up the
   * prices.
   */
  readonly models?: Readonly<Record<string, ModelValues>>;
  /**
   * For vendors that run another vendor's models at their own prices. Returns the row of the original model, from which
   * we only use the traits and limits.
   */
  readonly findModel?: (name: string) => ModelValues | undefined;
  /** The price in USD for each use of a tool that the vendor runs. Applies to all of the vendor's chat models. */
  readonly toolPrices?: Readonly<Record<string, string>>;
  /** The vendor's name in the public price table, both in `litellm_provider` and as the prefix of model names. */
  readonly tableNames?: readonly string[];
  /**
   * If there's no configuration file and the environment variable `variable` is set, the gateway uses these providers
   * and tiers.
   */
  readonly starter?: { readonly variable: VariableName; readonly values: FileValues };
}

/**
 * A value that only the operator knows, such as a region. `gateway vendors add` asks the question and inserts the
 * answer into the base URL or a header.
 */
export interface VendorParameter {
  readonly question: string;
  readonly pattern: RegExp;
  readonly example: string;
}

export type CloudIdentity =
  | { readonly type: 'aws'; readonly scheme: 'bearer' | 'sigv4'; readonly service: string }
  | { readonly type: 'google' }
  | { readonly type: 'azure'; readonly scope: string };

export type Models = Readonly<Record<string, ModelValues>>;
