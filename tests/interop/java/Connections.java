// Queues and exchanges, errors, and the life of a connection.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.Method;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

final class Connections {
    private Connections() { }

    static void register(Map<String, Client.Scenario> scenarios) {
        scenarios.put("topology", Connections::topology);
        scenarios.put("channel_error", Connections::channelError);
        scenarios.put("passive", Connections::passive);
        scenarios.put("connection_error", Connections::connectionError);
        scenarios.put("cancelled", Connections::cancelled);
        scenarios.put("heartbeat", Connections::heartbeat);
        scenarios.put("cut", Connections::cut);
        scenarios.put("recovery", Connections::recovery);
        scenarios.put("broker_stop", Connections::brokerStop);
    }

    private static Map<String, Object> topology(Client client) throws Exception {
        String queue = client.name;
        String outer = client.name + ".x";
        String inner = client.name + ".y";
        Channel channel = client.confirming();
        channel.exchangeDeclare(outer, "topic", true);
        channel.exchangeDeclare(inner, "fanout", false);
        int declared = channel.queueDeclare(queue, true, false, false, null).getMessageCount();
        channel.exchangeBind(inner, outer, "a.#");
        channel.queueBind(queue, inner, "");
        for (String key : List.of("a", "a.b", "b")) {
            Client.sure(channel, outer, key, key);
        }
        int counted = channel.queueDeclarePassive(queue).getMessageCount();
        GetResponse got = channel.basicGet(queue, true);
        int purged = channel.queuePurge(queue).getMessageCount();
        boolean empty = channel.basicGet(queue, true) == null;
        channel.queueUnbind(queue, inner, "");
        int deleted = channel.queueDelete(queue).getMessageCount();
        return Client.report("declared", declared, "counted", counted, "got", Client.text(got.getBody()),
            "left", got.getMessageCount(), "purged", purged, "empty", empty, "deleted", deleted);
    }

    private static Map<String, Object> channelError(Client client) throws Exception {
        try {
            client.channel().queueDeclarePassive(client.name);
        } catch (IOException error) {
            AMQP.Channel.Close close = (AMQP.Channel.Close) reason(error);
            boolean named = close.getReplyText().contains("no queue '" + client.name + "' in vhost '/'");
            String queue = client.channel().queueDeclare().getQueue();
            return Client.report("code", close.getReplyCode(), "named", named,
                "reopened", queue.startsWith("amq.gen-"));
        }
        throw new IllegalStateException("a queue that does not exist was found");
    }

    private static Map<String, Object> passive(Client client) throws Exception {
        try {
            client.channel().exchangeDeclarePassive(client.name + ".x");
        } catch (IOException error) {
            Channel channel = client.channel();
            channel.exchangeDeclare(client.name + ".x", "direct");
            channel.exchangeDeclarePassive(client.name + ".x");
            return Client.report("code", ((AMQP.Channel.Close) reason(error)).getReplyCode(),
                "reopened", channel.isOpen());
        }
        throw new IllegalStateException("an exchange that does not exist was found");
    }

    private static Map<String, Object> connectionError(Client client) throws Exception {
        BlockingQueue<ShutdownSignalException> closed = shutdowns(client.connection);
        Channel channel = client.channel();
        channel.queueDeclare(client.name, false, false, false, null);
        try {
            for (int n = 0; n < 2; n++) {
                channel.basicConsume(client.name, false, "same", (tag, delivery) -> { }, tag -> { });
            }
        } catch (IOException | AlreadyClosedException expected) {
            // the reason is taken from the connection below
        }
        AMQP.Connection.Close close = (AMQP.Connection.Close) Client.next(closed).getReason();
        return Client.report("code", close.getReplyCode());
    }

    private static Map<String, Object> cancelled(Client client) throws Exception {
        BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
        Channel channel = client.channel();
        channel.queueDeclare(client.name, false, false, false, null);
        String mine = channel.basicConsume(client.name, false, (tag, delivery) -> { }, cancelled::add);
        client.channel().queueDelete(client.name);
        return Client.report("cancelled", Client.next(cancelled).equals(mine));
    }

    private static Map<String, Object> heartbeat(Client client) throws Exception {
        shutdowns(client.connection).poll(3200, TimeUnit.MILLISECONDS);
        client.channel().queueDeclare();
        return Client.report("alive", client.connection.isOpen());
    }

    private static Map<String, Object> cut(Client client) throws Exception {
        BlockingQueue<ShutdownSignalException> closed = shutdowns(client.connection);
        Channel channel = client.confirming();
        channel.queueDeclare(client.name, true, false, false, null);
        Client.sure(channel, "", client.name, "held");
        String first = Client.text(channel.basicGet(client.name, false).getBody());
        client.ask("cut");
        Client.next(closed);
        try (Connection again = client.factory.newConnection()) {
            Channel second = again.createChannel();
            Delivery delivery = Client.next(Client.consume(second, client.name, false));
            second.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
            return Client.report("bodies", List.of(first, Client.mark(delivery)));
        }
    }

    /** Exclusive queue, auto-delete exchange, binding and consumer all have to be made again. */
    private static Map<String, Object> recovery(Client client) throws Exception {
        BlockingQueue<String> recovered = new LinkedBlockingQueue<>();
        ((Recoverable) client.connection).addRecoveryListener(new RecoveryListener() {
            @Override
            public void handleRecovery(Recoverable recoverable) {
                recovered.add("recovered");
            }

            @Override
            public void handleRecoveryStarted(Recoverable recoverable) { }
        });
        Channel channel = client.confirming();
        String exchange = client.name + ".x";
        channel.exchangeDeclare(exchange, "direct", false, true, null);
        String queue = channel.queueDeclare().getQueue();
        channel.queueBind(queue, exchange, "key");
        BlockingQueue<Delivery> inbox = Client.consume(channel, queue, true);
        Client.sure(channel, exchange, "key", "before");
        String before = Client.mark(Client.next(inbox));
        client.ask("cut");
        Client.next(recovered);
        Client.sure(channel, exchange, "key", "after");
        return Client.report("bodies", List.of(before, Client.mark(Client.next(inbox))));
    }

    private static Map<String, Object> brokerStop(Client client) throws Exception {
        BlockingQueue<ShutdownSignalException> closed = shutdowns(client.connection);
        client.ask("stop");
        AMQP.Connection.Close close = (AMQP.Connection.Close) Client.next(closed).getReason();
        return Client.report("code", close.getReplyCode());
    }

    private static BlockingQueue<ShutdownSignalException> shutdowns(Connection connection) {
        BlockingQueue<ShutdownSignalException> closed = new LinkedBlockingQueue<>();
        connection.addShutdownListener(closed::add);
        return closed;
    }

    private static Method reason(IOException error) {
        return ((ShutdownSignalException) error.getCause()).getReason();
    }
}
