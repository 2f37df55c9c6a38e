// Scenarios of the AMQP client for Node: each prints one line of JSON, which the tests judge.
'use strict';
const amqp = require('amqplib');
const readline = require('node:readline');
const callbackScenario = require('./callbacks.js');

const [, , scenario, url, name] = process.argv;
const other = `${name}.other`;
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(help) {
  console.log(help);
  await input.next();
}

function deferred() {
  const box = {};
  box.promise = new Promise((resolve, reject) => Object.assign(box, { resolve, reject }));
  return box;
}

// Consumes until `count` messages were handled; `handle` settles each of them.
async function consume(channel, queue, count, handle, options) {
  const all = deferred();
  const seen = [];
  const { consumerTag } = await channel.consume(queue, (message) => {
    seen.push(message);
    handle(message);
    if (seen.length === count) all.resolve();
  }, options);
  await all.promise;
  await channel.cancel(consumerTag);
  return seen;
}

const mark = (message) => message.content.toString() + (message.fields.redelivered ? '*' : '');

const scenarios = {
  async topology(connection) {
    const channel = await connection.createConfirmChannel();
    await channel.assertExchange(`${name}.x`, 'topic', { durable: true });
    await channel.assertExchange(`${name}.y`, 'fanout', { durable: false });
    const declared = await channel.assertQueue(name, { durable: true });
    await channel.bindExchange(`${name}.y`, `${name}.x`, 'a.#');
    await channel.bindQueue(name, `${name}.y`, '');
    for (const key of ['a', 'a.b', 'b']) channel.publish(`${name}.x`, key, Buffer.from(key));
    await channel.waitForConfirms();
    const counted = await channel.checkQueue(name);
    const got = await channel.get(name, { noAck: true });
    const purged = await channel.purgeQueue(name);
    const empty = await channel.get(name, { noAck: true });
    await channel.unbindQueue(name, `${name}.y`, '');
    const deleted = await channel.deleteQueue(name);
    return {
      declared: declared.messageCount, counted: counted.messageCount,
      got: got.content.toString(), left: got.fields.messageCount,
      purged: purged.messageCount, empty: empty === false, deleted: deleted.messageCount,
    };
  },

  async confirms(connection) {
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue(name, { durable: true });
    for (let n = 0; n < 100; n++) channel.sendToQueue(name, Buffer.from(`${n}`), { persistent: true });
    await channel.waitForConfirms();
    const stored = (await channel.checkQueue(name)).messageCount;
    await channel.assertQueue(other, { maxLength: 1, arguments: { 'x-overflow': 'reject-publish' } });
    const outcomes = [];
    for (let n = 0; n < 2; n++) {
      const settled = deferred();
      channel.sendToQueue(other, Buffer.from('x'), {}, (error) => settled.resolve(error ? 'nack' : 'ack'));
      outcomes.push(await settled.promise);
    }
    return { stored, outcomes };
  },

  async settle(connection) {
    const channel = await connection.createChannel();
    await channel.assertQueue(other);
    await channel.assertQueue(name, { deadLetterExchange: '', deadLetterRoutingKey: other });
    for (const body of ['a', 'b', 'c']) channel.sendToQueue(name, Buffer.from(body));
    await channel.prefetch(1);
    const seen = await consume(channel, name, 4, (message) => {
      const what = mark(message);
      if (what === 'b') channel.nack(message, false, true);
      else if (what === 'c') channel.reject(message, false);
      else channel.ack(message);
    });
    const [dead] = await consume(channel, other, 1, (message) => channel.ack(message));
    const death = dead.properties.headers['x-death'][0];
    return { order: seen.map(mark), dead: mark(dead), reason: death.reason, from: death.queue === name };
  },

  async returns(connection) {
    const channel = await connection.createConfirmChannel();
    const events = [];
    channel.on('return', (message) =>
      events.push(`${message.fields.replyCode} ${message.fields.replyText} ${message.content}`));
    channel.publish('', name, Buffer.from('lost'), { mandatory: true }, () => events.push('ack'));
    await channel.waitForConfirms();
    return { events };
  },

  async prefetch(connection) {
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue(name);
    for (let n = 0; n < 5; n++) channel.sendToQueue(name, Buffer.from(`${n}`));
    await channel.waitForConfirms();
    await channel.prefetch(2);
    const [two, four] = [deferred(), deferred()];
    const seen = [];
    await channel.consume(name, (message) => {
      seen.push(message);
      if (seen.length === 2) two.resolve();
      if (seen.length === 4) four.resolve();
    });
    await two.promise;
    const left = (await channel.checkQueue(name)).messageCount;
    const held = seen.length;
    channel.ack(seen[1], true);
    await four.promise;
    return { held, left, then: seen.length };
  },

  async reply_to(connection) {
    const [client, server] = [await connection.createChannel(), await connection.createChannel()];
    await server.assertQueue(name);
    await server.consume(name, (request) => {
      const { replyTo, correlationId } = request.properties;
      server.sendToQueue(replyTo, Buffer.from(request.content.toString().toUpperCase()), { correlationId });
    }, { noAck: true });
    const answer = deferred();
    await client.consume('amq.rabbitmq.reply-to', answer.resolve, { noAck: true });
    client.sendToQueue(name, Buffer.from('shout'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '42' });
    const reply = await answer.promise;
    return { reply: reply.content.toString(), correlation: reply.properties.correlationId };
  },

  async channel_error(connection) {
    const channel = await connection.createChannel();
    channel.on('error', () => {});
    const error = await channel.checkQueue(name).then(() => null, (reason) => reason);
    const second = await connection.createChannel();
    const { queue } = await second.assertQueue('', { exclusive: true });
    return { code: error.code, named: error.message.includes(`no queue '${name}' in vhost '/'`),
      reopened: queue.startsWith('amq.gen-') };
  },

  async connection_error(connection) {
    const closed = deferred();
    connection.on('error', closed.resolve);
    const channel = await connection.createChannel();
    channel.on('error', () => {});
    await channel.assertQueue(name);
    await channel.consume(name, () => {}, { consumerTag: 'same' });
    channel.consume(name, () => {}, { consumerTag: 'same' }).catch(() => {});
    return { code: (await closed.promise).code };
  },

  async cancelled(connection) {
    const channel = await connection.createChannel();
    await channel.assertQueue(name);
    const cancelled = deferred();
    await channel.consume(name, cancelled.resolve);
    await channel.deleteQueue(name);
    return { cancelled: (await cancelled.promise) === null };
  },

  async headers(connection) {
    const channel = await connection.createChannel();
    await channel.assertQueue(name);
    const sent = {
      text: 'grün', yes: true, no: false, none: null, small: 7, negative: -70000, big: 2 ** 40,
      real: 1.5, list: [1, 'two', [3]], table: { deep: { er: 1 } }, when: { '!': 'timestamp', value: 1700000000 },
    };
    channel.sendToQueue(name, Buffer.from(''), { headers: sent });
    const { headers } = (await channel.get(name, { noAck: true })).properties;
    require('node:assert').deepStrictEqual({ ...headers }, sent);
    return { same: true };
  },

  async large(connection) {
    const channel = await connection.createChannel();
    await channel.assertQueue(name);
    const body = Buffer.alloc(1_000_003, 'abcdefg');
    channel.sendToQueue(name, body);
    const got = await channel.get(name, { noAck: true });
    return { same: got.content.equals(body) };
  },

  async heartbeat(connection) {
    let alive = true;
    connection.on('close', () => { alive = false; });
    await new Promise((resolve) => setTimeout(resolve, 3200));
    await (await connection.createChannel()).assertQueue('', { exclusive: true });
    return { alive };
  },

  async cut(connection) {
    const closed = deferred();
    connection.on('error', () => {});
    connection.on('close', closed.resolve);
    const channel = await connection.createConfirmChannel();
    channel.on('error', () => {});
    await channel.assertQueue(name, { durable: true });
    channel.sendToQueue(name, Buffer.from('held'));
    await channel.waitForConfirms();
    const first = await channel.get(name);
    await ask('cut');
    await closed.promise;
    const again = await amqp.connect(url);
    const second = await again.createChannel();
    const [redelivered] = await consume(second, name, 1, (message) => second.ack(message));
    await again.close();
    return { bodies: [mark(first), mark(redelivered)] };
  },

  async broker_stop(connection) {
    const [failed, closed] = [deferred(), deferred()];
    // amqplib counts an operator's shutdown (320) as a clean close: no error event, only close
    connection.on('error', failed.resolve);
    connection.on('close', closed.resolve);
    await ask('stop');
    const reason = await Promise.race([failed.promise, closed.promise]);
    return { code: reason.code };
  },
};

async function main() {
  if (scenario === 'callbacks') return callbackScenario(url, name);
  const connection = await amqp.connect(url + (scenario === 'heartbeat' ? '?heartbeat=1' : ''));
  const result = await scenarios[scenario](connection);
  await connection.close().catch(() => {});
  return result;
}

main().then(
  (result) => { console.log(JSON.stringify(result)); process.exit(0); },
  (error) => { console.error(error); process.exit(1); },
);
