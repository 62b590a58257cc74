/**
 * What the gateway knows about a vendor. Each vendor has one file in this folder, and `known-vendors.ts` lists them.
 * docs/vendors.md explains how to add one.
 */
import type { Route } from '../../core/call.ts';
import type { RequestFormat } from '../../core/request-format.ts';
import type { ProviderConfig, ProviderDialect } from '../config.ts';
import type { FileValues, ModelValues } from '../file-schema.ts';
import type { VariableName } from '../variables.ts';

export interface VendorDescription {
  /** The vendor's name in `vendor` of a provider and in `gateway vendors add`. */
  readonly name: string;
  readonly title: string;
  /** The page of the vendor that describes its API. */
  readonly documentation: string;
  /**
   * The hosts of the vendor. A provider with one of them is at this vendor, unless its row says otherwise. `*` stands
   * for one or more labels of the name. Regional hosts and resellers that charge other prices need a description of
   * their own.
   */
  readonly hosts: readonly string[];
  /**
   * Tells vendors with the same host apart, such as Claude and Gemini on Vertex AI. Defaults to every path.
   */
  readonly path?: RegExp;
  /** The base URL. It contains values that only its owner knows as `{name}`, and `parameters` describes them. */
  readonly baseUrl: string;
  readonly parameters?: Readonly<Record<string, VendorParameter>>;
  /** Corrects a base URL whose parameters have been filled in, if some values need another host. */
  readonly correctBaseUrl?: (url: string) => string;
  readonly dialect: ProviderDialect;
  /** Defaults to everything that is usual for the dialect. */
  readonly serves?: readonly Route[];
  /** Whether the vendor has the responses route, if `serves` doesn't say. Defaults to unknown for the chat dialect. */
  readonly responses?: ProviderConfig['responses'];
  /** The header for the API key. Defaults to what is usual for the dialect. */
  readonly auth?: ProviderConfig['auth'];
  /** Whether a provider needs an API key, if it has no other identity. Defaults to true. */
  readonly needsKey?: boolean;
  /** The identities that the vendor accepts in place of a key, and their settings. */
  readonly identity?: CloudIdentity;
  /** False if `/models` lists something else than the names that calls use, such as models instead of deployments. */
  readonly listsModels?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly requests?: Partial<RequestFormat>;
  /** The vendor's models with its list prices. See starter-models.ts for units and dates. */
  readonly models?: Readonly<Record<string, ModelValues>>;
  /**
   * For vendors that run another vendor's models at prices of their own. We look up what a model accepts in this
   * function's result, but not its price.
   */
  readonly findModel?: (name: string) => ModelValues | undefined;
  /** USD for each use of a tool that the vendor runs, by tool. Applies to all of the vendor's chat models. */
  readonly toolPrices?: Readonly<Record<string, string>>;
  /**
   * The vendor's names in the public price table, which uses them in `litellm_provider` and as the prefix of models.
   */
  readonly tableNames?: readonly string[];
  /** What applies if there's no configuration file, but an API key in this environment variable. */
  readonly starter?: { readonly variable: VariableName; readonly values: FileValues };
}

/** A value in a base URL or header that `gateway vendors add` asks for. */
export interface VendorParameter {
  readonly question: string;
  readonly pattern: RegExp;
  readonly example: string;
}

/** How the vendor accepts a cloud identity. */
export type CloudIdentity =
  | { readonly type: 'aws'; readonly scheme: 'bearer' | 'sigv4'; readonly service: string }
  | { readonly type: 'google' }
  | { readonly type: 'azure'; readonly scope: string };

export type Models = Readonly<Record<string, ModelValues>>;
