/** Connections to Temporal's server: request timeout, namespace and search attributes. */
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
  /** Keys of 32 bytes, the current ones where they may change; the first encrypts payloads. */
  readonly payloadKeys?: readonly Uint8Array[] | (() => readonly Uint8Array[]);
  /** Called when a payload cannot be decrypted, with its workflow id where the SDK knows it. */
  readonly onMissingKey?: (keyId: string, workflowId?: string) => void;
  /** Create the namespace if the server does not have it. */
  readonly createNamespace?: boolean;
  readonly logger: Logger;
}

type ConnectionTarget = Pick<TemporalOptions, 'address' | 'tls' | 'apiKey'>;

const requestTimeoutMs = 5_000;
const retentionMs = 3 * 24 * 3_600_000; // Short, because an erasure cannot edit histories.

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
  grpcStatus.cancelled, // by the request timeout
  grpcStatus.deadlineExceeded,
  grpcStatus.resourceExhausted,
  grpcStatus.unavailable,
];
/** Enum value of the search attribute type Keyword. */
const keywordType = 2;

/** Whether a server at this address has this namespace. Never throws; false without a response. */
export async function servesNamespace(address: string, namespace: string): Promise<boolean> {
  const connection = connect({ address });
  try {
    await withRequestTimeout(connection, () => connection.workflowService.describeNamespace({ namespace }));
    return true;
  } catch {
    return false; // Not up yet, or another server: the caller retries or terminates it.
  } finally {
    await connection.close();
  }
}

export function connect(options: ConnectionTarget): Connection {
  return Connection.lazy({
    ...connectionOptions(options),
    // No retries in the client: callers retry, and must notice immediately that the server is unavailable.
    interceptors: [],
    // By default, gRPC waits up to two minutes before it reconnects.
    channelArgs: { 'grpc.initial_reconnect_backoff_ms': 200, 'grpc.max_reconnect_backoff_ms': 2_000 },
  });
}

/** The options that both kinds of connection accept. Omits absent ones, because the SDK rejects undefined. */
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

/** The server does not have the namespace. */
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
  /** Names that the namespace has. */
  readonly registered: readonly string[];
  /** Why the others are missing. */
  readonly rejection?: unknown;
}

/**
 * Registers search attributes of the type Keyword, which are per namespace; skips those that exist. One at a time, because the server's limit
 * may leave out only some of them.
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
      // Another gateway process registered it first, unless it is listed with another type.
      if (grpcCodeOf(error) === grpcStatus.alreadyExists && !Object.hasOwn(customAttributes, name)) registered.push(name);
      else rejection ??= error;
    }
  }
  return { registered, rejection };
}

function isMissingNamespace(error: unknown): boolean {
  return error instanceof NamespaceNotFoundError || grpcCodeOf(error) === grpcStatus.notFound;
}

/** Whether the error is one of an unavailable server, rather than of the request. */
export function isUnavailable(error: unknown): boolean {
  return unavailableCodes.includes(grpcCodeOf(error));
}

/** gRPC status code of an error or of its nearest cause that has one. */
export function grpcCodeOf(error: unknown): unknown {
  if (isGrpcServiceError(error)) return error.code;
  return isObject(error) && error['cause'] !== undefined ? grpcCodeOf(error['cause']) : undefined;
}
