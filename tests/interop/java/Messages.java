// Publishing, consuming and settling messages.

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.impl.LongStringHelper;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.LinkedBlockingQueue;

final class Messages {
    private static final String DIRECT = "amq.rabbitmq.reply-to";

    private Messages() { }

    static void register(Map<String, Client.Scenario> scenarios) {
        scenarios.put("confirms", Messages::confirms);
        scenarios.put("settle", Messages::settle);
        scenarios.put("returns", Messages::returns);
        scenarios.put("prefetch", Messages::prefetch);
        scenarios.put("reply_to", Messages::replyTo);
        scenarios.put("rpc", Messages::rpc);
        scenarios.put("headers", Messages::headers);
        scenarios.put("large", Messages::large);
        scenarios.put("transaction", Messages::transaction);
    }

    private static Map<String, Object> confirms(Client client) throws Exception {
        Channel channel = client.channel();
        channel.queueDeclare(client.name, true, false, false, null);
        BlockingQueue<Integer> done = new LinkedBlockingQueue<>();
        ConcurrentSkipListSet<Long> open = new ConcurrentSkipListSet<>();
        channel.addConfirmListener((tag, multiple) -> {
            if (multiple) {
                open.headSet(tag, true).clear();
            } else {
                open.remove(tag);
            }
            if (open.isEmpty()) {
                done.add(1);
            }
        }, (tag, multiple) -> { throw new IllegalStateException("nack"); });
        channel.confirmSelect();
        for (long tag = 1; tag <= 100; tag++) {
            open.add(tag);
        }
        for (int n = 0; n < 100; n++) {
            channel.basicPublish("", client.name, MessageProperties.PERSISTENT_BASIC, new byte[1]);
        }
        Client.next(done);
        long stored = channel.messageCount(client.name);

        Channel second = client.confirming();
        second.queueDeclare(client.other, false, false, false,
            Map.of("x-max-length", 1, "x-overflow", "reject-publish"));
        List<String> outcomes = new ArrayList<>();
        for (int n = 0; n < 2; n++) {
            outcomes.add(Client.sure(second, "", client.other, "x") ? "ack" : "nack");
        }
        return Client.report("stored", stored, "outcomes", outcomes);
    }

    private static Map<String, Object> settle(Client client) throws Exception {
        Channel channel = client.channel();
        channel.queueDeclare(client.other, false, false, false, null);
        channel.queueDeclare(client.name, false, false, false,
            Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", client.other));
        for (String body : List.of("a", "b", "c")) {
            channel.basicPublish("", client.name, null, Client.bytes(body));
        }
        channel.basicQos(1);
        BlockingQueue<Delivery> inbox = Client.consume(channel, client.name, false);
        List<String> order = new ArrayList<>();
        while (order.size() < 4) {
            Delivery delivery = Client.next(inbox);
            long tag = delivery.getEnvelope().getDeliveryTag();
            order.add(Client.mark(delivery));
            switch (Client.mark(delivery)) {
                case "b" -> channel.basicNack(tag, false, true);
                case "c" -> channel.basicReject(tag, false);
                default -> channel.basicAck(tag, false);
            }
        }
        Delivery dead = Client.next(Client.consume(channel, client.other, true));
        Map<?, ?> death = (Map<?, ?>) ((List<?>) dead.getProperties().getHeaders().get("x-death")).get(0);
        return Client.report("order", order, "dead", Client.mark(dead), "reason", death.get("reason"),
            "from", death.get("queue").toString().equals(client.name));
    }

    private static Map<String, Object> returns(Client client) throws Exception {
        Channel channel = client.confirming();
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        channel.addReturnListener(back -> events.add(
            back.getReplyCode() + " " + back.getReplyText() + " " + Client.text(back.getBody())));
        channel.addConfirmListener((tag, multiple) -> events.add("ack"), (tag, multiple) -> events.add("nack"));
        channel.basicPublish("", client.name, true, null, Client.bytes("lost"));
        return Client.report("events", List.of(Client.next(events), Client.next(events)));
    }

    private static Map<String, Object> prefetch(Client client) throws Exception {
        Channel channel = client.confirming();
        channel.queueDeclare(client.name, false, false, false, null);
        for (int n = 0; n < 5; n++) {
            Client.sure(channel, "", client.name, "x");
        }
        channel.basicQos(2);
        BlockingQueue<Delivery> inbox = Client.consume(channel, client.name, false);
        Client.next(inbox);
        long second = Client.next(inbox).getEnvelope().getDeliveryTag();
        long left = channel.messageCount(client.name);
        int held = 2 + inbox.size();
        channel.basicAck(second, true);
        Client.next(inbox);
        Client.next(inbox);
        return Client.report("held", held, "left", left, "then", 4 + inbox.size());
    }

    private static Map<String, Object> replyTo(Client client) throws Exception {
        Channel asking = client.channel();
        Channel serving = client.channel();
        serving.queueDeclare(client.name, false, false, false, null);
        serving.basicConsume(client.name, true, (tag, request) -> serving.basicPublish(
            "", request.getProperties().getReplyTo(),
            new BasicProperties.Builder().correlationId(request.getProperties().getCorrelationId()).build(),
            Client.bytes(Client.text(request.getBody()).toUpperCase())), tag -> { });
        BlockingQueue<Delivery> replies = Client.consume(asking, DIRECT, true);
        asking.basicPublish("", client.name,
            new BasicProperties.Builder().replyTo(DIRECT).correlationId("42").build(), Client.bytes("shout"));
        Delivery reply = Client.next(replies);
        return Client.report("reply", Client.text(reply.getBody()),
            "correlation", reply.getProperties().getCorrelationId());
    }

    private static Map<String, Object> rpc(Client client) throws Exception {
        Channel serving = client.channel();
        serving.queueDeclare(client.name, false, false, false, null);
        RpcServer server = new RpcServer(serving, client.name) {
            @Override
            public byte[] handleCall(byte[] request, BasicProperties properties) {
                return Client.bytes(Client.text(request).toUpperCase());
            }
        };
        Thread loop = new Thread(() -> {
            try {
                server.mainloop();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        loop.setDaemon(true);
        loop.start();
        RpcClient asking = new RpcClient(new RpcClientParams().channel(client.channel())
            .exchange("").routingKey(client.name).timeout(Client.LIMIT_SECONDS * 1000));
        return Client.report("reply", Client.text(asking.primitiveCall(Client.bytes("shout"))));
    }

    private static Map<String, Object> headers(Client client) throws Exception {
        Map<String, Object> sent = new HashMap<>();
        sent.put("text", LongStringHelper.asLongString("grün"));
        sent.put("flag", true);
        sent.put("none", null);
        sent.put("byte", (byte) -7);
        sent.put("short", (short) -300);
        sent.put("int", -70000);
        sent.put("long", 1L << 40);
        sent.put("float", 1.5f);
        sent.put("double", 2.25);
        sent.put("decimal", new BigDecimal("3.14"));
        sent.put("date", new Date(1_700_000_000_000L));
        sent.put("list", List.of(1, LongStringHelper.asLongString("two"), List.of(3L)));
        sent.put("table", Map.of("deep", Map.of("er", 1)));
        Channel channel = client.channel();
        channel.queueDeclare(client.name, false, false, false, null);
        channel.basicPublish("", client.name, new BasicProperties.Builder().headers(sent).build(), new byte[0]);
        Map<String, Object> got = channel.basicGet(client.name, true).getProps().getHeaders();
        return Client.report("same", got.get("text") instanceof LongString && got.equals(sent));
    }

    private static Map<String, Object> large(Client client) throws Exception {
        byte[] body = Client.bytes("abcdefg".repeat(150_001));
        Channel channel = client.channel();
        channel.queueDeclare(client.name, false, false, false, null);
        channel.basicPublish("", client.name, null, body);
        return Client.report("same", Arrays.equals(channel.basicGet(client.name, true).getBody(), body));
    }

    private static Map<String, Object> transaction(Client client) throws Exception {
        Channel channel = client.channel();
        Channel observer = client.channel();
        channel.queueDeclare(client.name, false, false, false, null);
        channel.txSelect();
        channel.basicPublish("", client.name, null, Client.bytes("undone"));
        channel.txRollback();
        channel.basicPublish("", client.name, null, Client.bytes("done"));
        long before = observer.messageCount(client.name);
        channel.txCommit();
        List<String> after = new ArrayList<>();
        for (GetResponse got; (got = observer.basicGet(client.name, true)) != null; ) {
            after.add(Client.text(got.getBody()));
        }
        return Client.report("before", before, "after", after);
    }
}
