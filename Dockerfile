# The gateway as an image: the sources and what they need to run. Node runs TypeScript itself; only the workflows' bundle is built.
FROM node:24-bookworm-slim AS dependencies
WORKDIR /gateway
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund

FROM node:24-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 GATEWAY_DATA_DIR=/data
WORKDIR /gateway
# The journal lives in /data: mount a volume there, or calls that are not yet in the database die with the container.
RUN install --directory --owner=node --group=node /data
COPY --from=dependencies /gateway/node_modules ./node_modules
COPY package.json LICENSE ./
COPY src ./src
COPY workflows ./workflows
COPY activities ./activities
# Once here, so that no worker has to make it at its start.
RUN node --input-type=module --eval "const { prepareWorkflowBundle } = await import('/gateway/src/jobs/worker/workflow-bundle.ts'); \
      await prepareWorkflowBundle({ dataDir: '/gateway/workflow-bundle', logger: console })" \
    && chmod -R a+rX workflow-bundle
USER node
VOLUME /data
EXPOSE 8080
# Not through npm: signals must reach Node.
ENTRYPOINT ["node", "src/main.ts"]
CMD ["serve"]
