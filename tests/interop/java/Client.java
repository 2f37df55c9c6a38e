// Entry of the Java client's program: runs one scenario and prints its report as a line of JSON.

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

public final class Client {
    interface Scenario {
        Map<String, Object> run(Client client) throws Exception;
    }

    static final int LIMIT_SECONDS = 15;
    static final Map<String, Scenario> SCENARIOS = new HashMap<>();

    final String name;
    final String other;
    final ConnectionFactory factory = new ConnectionFactory();
    final Connection connection;
    private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));

    private Client(String scenario, String url, String name) throws Exception {
        this.name = name;
        this.other = name + ".other";
        factory.setUri(url);
        factory.setAutomaticRecoveryEnabled(scenario.equals("recovery"));
        factory.setNetworkRecoveryInterval(100);
        if (scenario.equals("heartbeat")) {
            factory.setRequestedHeartbeat(1);
        }
        connection = factory.newConnection();
    }

    public static void main(String[] arguments) throws Exception {
        Messages.register(SCENARIOS);
        Connections.register(SCENARIOS);
        try {
            Client client = new Client(arguments[0], arguments[1], arguments[2]);
            Map<String, Object> report = SCENARIOS.get(arguments[0]).run(client);
            client.connection.abort(2000);
            System.out.println(json(report));
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    /** Have the tests do something to the broker or to the connection. */
    void ask(String help) throws Exception {
        System.out.println(help);
        input.readLine();
    }

    Channel channel() throws Exception {
        return connection.createChannel();
    }

    Channel confirming() throws Exception {
        Channel channel = channel();
        channel.confirmSelect();
        return channel;
    }

    /** Publish on a confirming channel and wait for the answer; true means acknowledged. */
    static boolean sure(Channel channel, String exchange, String key, String body) throws Exception {
        channel.basicPublish(exchange, key, null, bytes(body));
        return channel.waitForConfirms(LIMIT_SECONDS * 1000L);
    }

    static BlockingQueue<Delivery> consume(Channel channel, String queue, boolean noAck) throws Exception {
        BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, noAck, (tag, delivery) -> inbox.add(delivery), tag -> { });
        return inbox;
    }

    static <T> T next(BlockingQueue<T> inbox) throws Exception {
        T value = inbox.poll(LIMIT_SECONDS, TimeUnit.SECONDS);
        if (value == null) {
            throw new IllegalStateException("nothing arrived in " + LIMIT_SECONDS + " s");
        }
        return value;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    static String mark(Delivery delivery) {
        return text(delivery.getBody()) + (delivery.getEnvelope().isRedeliver() ? "*" : "");
    }

    static Map<String, Object> report(Object... pairs) {
        Map<String, Object> report = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            report.put((String) pairs[i], pairs[i + 1]);
        }
        return report;
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                .map(entry -> json(entry.getKey()) + ":" + json(entry.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Client::json).collect(Collectors.joining(",", "[", "]"));
        }
        if (value instanceof Number || value instanceof Boolean) {
            return value.toString();
        }
        return '"' + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
