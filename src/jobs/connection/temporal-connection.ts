/** Connects to Temporal's server, and takes care of request timeouts, the namespace and search attributes. */
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
   * Keys of 32 bytes, or a function that returns the current ones if they can change. We encrypt payloads with the
   * first key.
   */
  readonly payloadKeys?: readonly Uint8Array[] | (() => readonly Uint8Array[]);
  /** Called if a payload can't be decrypted, with its workflow id if the SDK knows it. */
  readonly onMissingKey?: (keyId: string, workflowId?: string) => void;
  /** Creates the namespace if the server doesn't have it. */
  readonly createNamespace?: boolean;
  readonly logger: Logger;
}

type ConnectionTarget = Pick<TemporalOptions, 'address' | 'tls' | 'apiKey'>;

const requestTimeoutMs = 5_000;
// We keep histories only briefly, because an erasure can't edit them.
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
  grpcStatus.cancelled, // our request timeout causes this
  grpcStatus.deadlineExceeded,
  grpcStatus.resourceExhausted,
  grpcStatus.unavailable,
];
/** The enum value of the search attribute type Keyword. */
const keywordType = 2;

/**
 * Reports whether a server at this address has this namespace. Never throws, and returns false if there's no response.
 */
export async function servesNamespace(address: string, namespace: string): Promise<boolean> {
  const connection = connect({ address });
  try {
    await withRequestTimeout(connection, () => connection.workflowService.describeNamespace({ namespace }));
    return true;
  } catch {
    // The server isn't up yet, or it's a different one. The caller retries or terminates it.
    return false;
  } finally {
    await connection.close();
  }
}

export function connect(options: ConnectionTarget): Connection {
  return Connection.lazy({
    ...connectionOptions(options),
    // Disable retries in the client. Callers retry themselves, and have to notice immediately if the server is
    // unavailable.
    interceptors: [],
    // By default, gRPC waits up to two minutes before it reconnects.
    channelArgs: { 'grpc.initial_reconnect_backoff_ms': 200, 'grpc.max_reconnect_backoff_ms': 2_000 },
  });
}

/**
 * Returns the options that both kinds of connection accept. Leaves out missing ones, because the SDK rejects undefined.
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

/** Thrown if the server doesn't have the namespace. */
export class MissingNamespaceError extends Error {
  override readonly name = 'MissingNamespaceError';
}

type NamespaceOptions = Pick<TemporalOptions, 'namespace' | 'createNamespace' | 'logger'>;

/** Throws `MissingNamespaceError`. */
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
  /** The names that exist in the namespace. */
  readonly registered: readonly string[];
  /** The error that kept us from registering the others. */
  readonly rejection?: unknown;
}

/**
 * Registers search attributes of type Keyword in the namespace, and skips those that exist. We register them one at a
 * time, because the server's limit may only reject some of them.
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
      // If the attribute isn't listed with another type, another gateway process has just registered it.
      if (grpcCodeOf(error) === grpcStatus.alreadyExists && !Object.hasOwn(customAttributes, name)) registered.push(name);
      else rejection ??= error;
    }
  }
  return { registered, rejection };
}

function isMissingNamespace(error: unknown): boolean {
  return error instanceof NamespaceNotFoundError || grpcCodeOf(error) === grpcStatus.notFound;
}

/** Reports whether the error means that the server is unavailable, rather than that it rejects the request. */
export function isUnavailable(error: unknown): boolean {
  return unavailableCodes.includes(grpcCodeOf(error));
}

/** Returns the gRPC status code of an error, or of the nearest cause that has one. */
export function grpcCodeOf(error: unknown): unknown {
  if (isGrpcServiceError(error)) return error.code;
  return isObject(error) && error['cause'] !== undefined ? grpcCodeOf(error['cause']) : undefined;
}
