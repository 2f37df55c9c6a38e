// The callback interface of the AMQP client for Node: one request and its answer, then a clean close.
'use strict';
const amqp = require('amqplib/callback_api');

module.exports = (url, name) => new Promise((resolve, reject) => {
  const or = (next) => (error, value) => (error ? reject(error) : next(value));
  amqp.connect(url, or((connection) => {
    connection.createConfirmChannel(or((channel) => {
      channel.assertQueue(name, {}, or(({ queue }) => {
        const seen = [];
        channel.consume(queue, (message) => {
          seen.push(message.content.toString());
          channel.ack(message);
          if (seen.length === 3) connection.close(() => resolve({ seen }));
        }, {}, or(() => {
          for (const body of ['one', 'two', 'three']) channel.sendToQueue(queue, Buffer.from(body));
          channel.waitForConfirms((error) => error && reject(error));
        }));
      }));
    }));
  }));
});
