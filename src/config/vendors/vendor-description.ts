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
  /** The vendor's name, which is used for a provider's `vendor` setting and for `gateway vendors add`. */
  readonly name: string;
  readonly title: string;
  /** The address of the vendor's API documentation. */
  readonly documentation: string;
  /**
   * The vendor's hosts. A provider with one of these hosts is assumed to use this vendor, unless its row says
   * otherwise. `*` stands for one or more labels of the name. Regional hosts and resellers that charge other prices
   * need their own description.
   */
  readonly hosts: readonly string[];
  /**
   * Distinguishes vendors that have the same host, such as Claude and Gemini on Vertex AI. By default, all paths match.
   */
  readonly path?: RegExp;
  /**
   * The base URL. Placeholders like `{name}` stand for values that only the operator knows, and `parameters` describes
   * them.
   */
  readonly baseUrl: string;
  readonly parameters?: Readonly<Record<string, VendorParameter>>;
  /** Corrects the base URL after the placeholders have been replaced, because some values need a different host. */
  readonly correctBaseUrl?: (url: string) => string;
  readonly dialect: ProviderDialect;
  /** Routes that the vendor offers, if they differ from the usual ones of the dialect. */
  readonly serves?: readonly Route[];
  /**
   * Says whether the vendor has the responses route, if `serves` is missing. Defaults to `unknown` for the chat
   * dialect.
   */
  readonly responses?: ProviderConfig['responses'];
  /** The header for the API key. Defaults to the usual header of the dialect. */
  readonly auth?: ProviderConfig['auth'];
  /** True if a provider without a cloud identity needs an API key. This is the default. */
  readonly needsKey?: boolean;
  /** The kind of cloud identity that the vendor accepts in place of an API key. */
  readonly identity?: CloudIdentity;
  /**
   * False if `/models` doesn't return the names to use in calls. With some vendors, calls name a deployment instead.
   */
  readonly listsModels?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly requests?: Partial<RequestFormat>;
  /** The formats of images and speech. Defaults to OpenAI's. */
  readonly media?: Partial<MediaFormat>;
  /** The vendor's models with its list prices. See `../starter-models.ts` for units and dates. */
  readonly models?: Readonly<Record<string, ModelValues>>;
  /**
   * Used for vendors that run another vendor's models at their own prices. Returns the original model's row, from which
   * we take what it accepts, but not its price.
   */
  readonly findModel?: (name: string) => ModelValues | undefined;
  /** The price in USD for each use of a tool that the vendor runs. Applies to all of the vendor's chat models. */
  readonly toolPrices?: Readonly<Record<string, string>>;
  /**
   * The vendor's names in the public price table, where they're the value of `litellm_provider` and the prefix of model
   * names.
   */
  readonly tableNames?: readonly string[];
  /** Without a configuration file, this provider and these tiers are used if the variable is set. */
  readonly starter?: { readonly variable: VariableName; readonly values: FileValues };
}

/** A value in a base URL or header. `gateway vendors add` asks for it. */
export interface VendorParameter {
  readonly question: string;
  readonly pattern: RegExp;
  readonly example: string;
}

/** Describes how the vendor authenticates requests with a cloud identity. */
export type CloudIdentity =
  | { readonly type: 'aws'; readonly scheme: 'bearer' | 'sigv4'; readonly service: string }
  | { readonly type: 'google' }
  | { readonly type: 'azure'; readonly scope: string };

export type Models = Readonly<Record<string, ModelValues>>;
