/**
 * Connects to the Temporal server. Also handles request timeouts, and registers the namespace and search attributes.
 */
import { Connection, type ConnectionOptions, isGrpcServiceError, NamespaceNotFoundError } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { errorSummary } from '../../core/error-messages.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';

export interface TemporalOptions {
  readonly address: string;
  readonly namespace: string;
  readonly tls?: ConnectionOptions['tls'];
  readonly apiKey?: string;
  /**
   * Keys of 32 bytes. The first one encrypts payloads, and all of them can decrypt. Pass a function if the keys can
   * change.
   */
  readonly payloadKeys?: readonly Uint8Array[] | (() => readonly Uint8Array[]);
  /** Called when a payload can't be decrypted. The workflow id is only set if the SDK knows it. */
  readonly onMissingKey?: (keyId: string, workflowId?: string) => void;
  readonly createNamespace?: boolean;
  readonly logger: Logger;
}

type ConnectionTarget = Pick<TemporalOptions, 'address' | 'tls' | 'apiKey'>;

const requestTimeoutMs = 5_000;
// Data in histories can't be erased, so don't keep them for long.
const retentionMs = 3 * 24 * 3_600_000;

/** gRPC status codes (https://grpc.io/docs/guides/status-codes). */
export const grpcStatus = {
  cancelled: 1,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  unavailable: 14,
};
const unavailableCodes: readonly unknown[] = [
  grpcStatus.cancelled, // our own request timeout
  grpcStatus.deadlineExceeded,
  grpcStatus.resourceExhausted,
  grpcStatus.unavailable,
];
/** The value of `Keyword` in Temporal's enum of search attribute types. */
const keywordType = 2;

/**
 * Checks whether there's a server with this namespace at this address. If there's no response, the result is false.
 * Never throws.
 */
export async function servesNamespace(address: string, namespace: string): Promise<boolean> {
  const connection = connect({ address });
  try {
    await withRequestTimeout(connection, () => connection.workflowService.describeNamespace({ namespace }));
    return true;
  } catch {
    // The server may not be up yet, or another program may be listening on this port. The caller decides whether to try
    // again or to terminate the server.
    return false;
  } finally {
    await connection.close();
  }
}

export function connect(options: ConnectionTarget): Connection {
  return Connection.lazy({
    ...connectionOptions(options),
    // Turn off the client's own retries. Our callers retry, and they need to know immediately if the server is
    // unavailable.
    interceptors: [],
    // By default, gRPC waits up to two minutes before it tries to connect again, which is too long for us.
    channelArgs: { 'grpc.initial_reconnect_backoff_ms': 200, 'grpc.max_reconnect_backoff_ms': 2_000 },
  });
}

/**
 * Returns options for both `Connection` and `NativeConnection`. The SDK rejects undefined values, so unset options are
 * left out.
 */
export function connectionOptions({ address, tls, apiKey }: ConnectionTarget): {
  address: string;
  tls?: Exclude<ConnectionTarget['tls'], undefined>;
  apiKey?: string;
} {
  return { address, ...(tls !== undefined && { tls }), ...(apiKey !== undefined && { apiKey }) };
}

export function withRequestTimeout<Result>(connection: Connection, request: () => Promise<Result>): Promise<Result> {
  return connection.withAbortSignal(AbortSignal.timeout(requestTimeoutMs), request);
}

/** Thrown if the namespace doesn't exist and we can't create it. */
export class MissingNamespaceError extends Error {
  override readonly name = 'MissingNamespaceError';
}

type NamespaceOptions = Pick<TemporalOptions, 'namespace' | 'createNamespace' | 'logger'>;

/**
 * Creates the namespace if it's missing. If we aren't allowed to or it doesn't work, throws `MissingNamespaceError`.
 */
export async function ensureNamespace(
  { workflowService }: Connection,
  { namespace, createNamespace = false, logger }: NamespaceOptions,
): Promise<void> {
  try {
    await workflowService.describeNamespace({ namespace });
  } catch (error) {
    if (!isMissingNamespace(error)) throw error;
    if (!createNamespace)
      throw new MissingNamespaceError(
        `the Temporal namespace ${namespace} does not exist: create it, or set TEMPORAL_CREATE_NAMESPACE=true`,
      );
    try {
      await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: msToTs(retentionMs) });
      logger.info({ namespace }, 'created the Temporal namespace');
    } catch (cause) {
      if (grpcCodeOf(cause) === grpcStatus.alreadyExists) return;
      if (isUnavailable(cause)) throw cause;
      const message = `the Temporal namespace ${namespace} does not exist and cannot be created (${errorSummary(cause)})`;
      throw new MissingNamespaceError(message, { cause });
    }
  }
}

export interface SearchAttributeRegistration {
  /** The search attributes of the gateway that exist in the namespace. */
  readonly registered: readonly string[];
  readonly rejection?: unknown;
}

/**
 * Registers search attributes of type Keyword that don't exist yet. The number of attributes is limited, so the server
 * may reject some of them. That's why we register them one by one.
 */
export async function registerSearchAttributes(
  { operatorService }: Connection,
  namespace: string,
  names: readonly string[],
): Promise<SearchAttributeRegistration> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  const registered = names.filter((name) => customAttributes[name] === keywordType);
  let rejection: unknown;
  for (const name of names.filter((each) => !registered.includes(each))) {
    try {
      await operatorService.addSearchAttributes({ namespace, searchAttributes: { [name]: keywordType } });
      registered.push(name);
    } catch (error) {
      // If the attribute wasn't in the list before, another process of the gateway has probably registered it just now.
      // Otherwise it already exists with a different type.
      if (grpcCodeOf(error) === grpcStatus.alreadyExists && !Object.hasOwn(customAttributes, name)) registered.push(name);
      else rejection ??= error;
    }
  }
  return { registered, rejection };
}

function isMissingNamespace(error: unknown): boolean {
  return error instanceof NamespaceNotFoundError || grpcCodeOf(error) === grpcStatus.notFound;
}

/** Returns true if the error means that the server can't be reached, and false if the server rejected the request. */
export function isUnavailable(error: unknown): boolean {
  return unavailableCodes.includes(grpcCodeOf(error));
}

/** Returns the gRPC status code of an error or of its nearest cause that has one. */
export function grpcCodeOf(error: unknown): unknown {
  if (isGrpcServiceError(error)) return error.code;
  return isObject(error) && error['cause'] !== undefined ? grpcCodeOf(error['cause']) : undefined;
}
