/** Preloaded into jest: ends it when the process that started it has died. Jest's workers have another parent and are not affected. */
if (process.env['GATEWAY_BOOTSTRAP_IPC'] === String(process.ppid) && process.channel) {
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}
