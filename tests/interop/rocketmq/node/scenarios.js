// Scenarios of ali-ons: each prints what it saw, one thing per line.
'use strict';

const { Consumer, Producer, Message } = require('ali-ons');

const [scenario, names, topic] = process.argv.slice(2);
const httpclient = { request: async () => ({ status: 200, data: Buffer.from(names) }) };
const logger = { info() {}, debug() {}, warn() {}, error(...args) { console.error(...args); } };
const options = { nameSrv: [names], httpclient, logger, accessKeyId: '', accessKeySecret: '' };

const say = what => console.log('>', what);

async function makeProducer() {
  const producer = new Producer({ ...options, producerGroup: 'P' + topic });
  await producer.ready();
  return producer;
}

function consume(from, group, tags, handle, more = {}) {
  const consumer = new Consumer({ ...options, ...more, consumerGroup: group + topic });
  consumer.on('error', error => console.error(error)); // it goes on by itself
  consumer.subscribe(from, tags, handle);
}

function listen(group, tags, wanted, from = topic) {
  return new Promise(resolve => {
    const got = [];
    consume(from, group, tags, async message => {
      got.push(message.body.toString());
      if (got.length === wanted) resolve(got);
    });
  });
}

async function exists(producer, name) { // a consumer of a topic without a route gives up
  try {
    return await producer._mqClient.getTopicRouteInfoFromNameServer(name, 3000);
  } catch (error) {
    return false;
  }
}

function member(isBroadcast) { // until it is killed
  consume(topic, 'C', '*', async message => say(message.body.toString()), { isBroadcast });
  return new Promise(() => setInterval(() => {}, 60000));
}

const scenarios = {
  async everyday() {
    const producer = await makeProducer();
    say((await producer.send(new Message(topic, 'a', 'first'))).sendStatus);
    const got = listen('C', '*', 6);
    for (let at = 0; at < 5; at++) await producer.send(new Message(topic, 'a', 'm' + at));
    say((await got).sort().join(' '));
  },
  async selectors() {
    const producer = await makeProducer();
    const got = listen('C', 'a || c', 2);
    for (const tag of ['a', 'b', 'c']) await producer.send(new Message(topic, tag, 'tag-' + tag));
    say((await got).sort().join(' '));
  },
  async orderly() { // it has no locks; it consumes a queue one by one
    const producer = await makeProducer();
    for (let at = 0; at < 10; at++) {
      const message = new Message(topic, 'a', 'o' + at);
      message.shardingKey = 'one';
      await producer.send(message);
    }
    say((await listen('C', '*', 10)).join(' '));
  },
  async retry() {
    const producer = await makeProducer();
    await producer.send(new Message(topic, 'a', 'bad'));
    await new Promise(resolve => {
      const times = [];
      consume(topic, 'C', '*', async message => {
        times.push(message.reconsumeTimes);
        if (times.length === 2) resolve(say(times.join(' ')));
        throw new Error('later'); // ACTION_RETRY is forgotten when it is the second try
      }, { maxReconsumeTimes: 1 });
    });
    const dead = '%DLQ%C' + topic;
    while (!(await exists(producer, dead))) await new Promise(resolve => setTimeout(resolve, 100));
    say((await listen('D', '*', 1, dead)).join(' '));
  },
  member: () => member(false),
  broadcasting: () => member(true),
};

scenarios[scenario]().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
