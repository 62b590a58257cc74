/** Types for the part of `oidc-provider` that `identity-provider.ts` uses. The package doesn't have any. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  interface Account {
    readonly accountId: string;
    claims(): Promise<Readonly<Record<string, unknown>>>;
  }

  export default class Provider {
    constructor(
      issuer: string,
      configuration: Readonly<Record<string, unknown>> & { findAccount(context: unknown, id: string): Promise<Account | undefined> },
    );
    callback(): (request: IncomingMessage, response: ServerResponse) => void;
  }
}
