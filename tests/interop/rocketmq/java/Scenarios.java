import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** Scenarios of the Java client: each prints what it saw, one thing per line. */
public class Scenarios {
    static String names;
    static String topic;

    public static void main(String[] args) throws Exception {
        String scenario = args[0];
        names = args[1];
        topic = args[2];
        switch (scenario) {
            case "everyday": everyday(); break;
            case "retry": retry(); break;
            case "orderly": orderly(); break;
            case "selectors": selectors(); break;
            case "transaction": transaction(); break;
            case "delay": delay(); break;
            case "request": request(); break;
            case "member": member(consumer("C" + topic)); break;
            case "broadcasting": member(broadcasting(consumer("C" + topic))); break;
            default: throw new IllegalArgumentException(scenario);
        }
        System.exit(0);
    }

    static void say(Object what) {
        System.out.println("> " + what);
    }

    static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("P" + topic, hook());
        producer.setNamesrvAddr(names);
        producer.start();
        return producer;
    }

    /** Signs requests when there is an access key. */
    static RPCHook hook() {
        String key = System.getProperty("access.key");
        return key == null ? null
            : new AclClientRPCHook(new SessionCredentials(key, System.getProperty("secret.key")));
    }

    static DefaultMQPushConsumer consumer(String group) {
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(group, hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static Message message(String body, String tag) {
        return new Message(topic, tag, body, body.getBytes(StandardCharsets.UTF_8));
    }

    static List<String> take(BlockingQueue<String> queue, int count) throws Exception {
        List<String> taken = new ArrayList<>();
        while (taken.size() < count) {
            String one = queue.poll(30, TimeUnit.SECONDS);
            if (one == null) {
                taken.add("nothing more came");
                return taken;
            }
            taken.add(one);
        }
        return taken;
    }

    static BlockingQueue<String> listen(DefaultMQPushConsumer consumer) throws Exception {
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> got.add(text(one)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return got;
    }

    static void everyday() throws Exception {
        DefaultMQProducer producer = producer();
        SendResult sent = producer.send(message("first", "a"));
        say(sent.getSendStatus() == SendStatus.SEND_OK);
        List<Message> batch = new ArrayList<>();
        for (int at = 0; at < 3; at++) {
            batch.add(message("batch-" + at, "a"));
        }
        say(producer.send(batch).getSendStatus());
        producer.sendOneway(message("oneway", "a"));
        char[] many = new char[10000];
        java.util.Arrays.fill(many, 'x');
        producer.send(message(new String(many), "a"));
        DefaultMQPushConsumer consumer = consumer("C" + topic);
        consumer.subscribe(topic, "*");
        BlockingQueue<String> got = listen(consumer);
        List<String> all = take(got, 6);
        Collections.sort(all);
        for (String one : all) {
            say(one.length() > 100 ? String.valueOf(one.length()) : one);
        }
        say(producer.viewMessage(topic, sent.getMsgId()).getTags());
        consumer.shutdown();
        producer.shutdown();
    }

    static void request() throws Exception {
        DefaultMQProducer replying = new DefaultMQProducer("R" + topic, hook());
        replying.setInstanceName("replying");
        replying.setNamesrvAddr(names);
        replying.start();
        replying.send(message("hello", "a"));
        // The topic must be new to this one: only then does it tell the broker at once who it is.
        DefaultMQProducer producer = producer();
        DefaultMQPushConsumer consumer = consumer("C" + topic);
        consumer.subscribe(topic, "question");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                try {
                    String answer = "answer to " + text(one);
                    replying.send(MessageUtil.createReplyMessage(one, answer.getBytes()));
                } catch (Exception problem) {
                    System.out.println(problem);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Message answer = producer.request(message("why", "question"), 30000);
        say(new String(answer.getBody(), StandardCharsets.UTF_8));
        consumer.shutdown();
        replying.shutdown();
        producer.shutdown();
    }

    static void retry() throws Exception {
        DefaultMQProducer producer = producer();
        producer.send(message("bad", "a"));
        DefaultMQPushConsumer consumer = consumer("C" + topic);
        consumer.setMaxReconsumeTimes(2);
        consumer.subscribe(topic, "*");
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> got.add(text(one) + " " + one.getReconsumeTimes() + " "
                + one.getTopic().equals(topic)));
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        take(got, 3).forEach(Scenarios::say);
        DefaultMQPushConsumer dead = consumer("D" + topic);
        dead.subscribe("%DLQ%C" + topic, "*");
        BlockingQueue<String> buried = listen(dead);
        take(buried, 1).forEach(Scenarios::say);
        dead.shutdown();
        consumer.shutdown();
        producer.shutdown();
    }

    static void orderly() throws Exception {
        DefaultMQProducer producer = producer();
        for (int at = 0; at < 20; at++) {
            producer.send(message("o" + at, "a"), (queues, one, key) -> queues.get(1), null);
        }
        DefaultMQPushConsumer consumer = consumer("C" + topic);
        consumer.subscribe(topic, "*");
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        AtomicInteger failures = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            if (text(messages.get(0)).equals("o5") && failures.getAndIncrement() == 0) {
                context.setSuspendCurrentQueueTimeMillis(100);
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            messages.forEach(one -> got.add(text(one)));
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        say(String.join(" ", take(got, 20)));
        consumer.shutdown();
        producer.shutdown();
    }

    static void selectors() throws Exception {
        DefaultMQProducer producer = producer();
        for (String tag : new String[] {"a", "b", "c"}) {
            Message one = message("tag-" + tag, tag);
            one.putUserProperty("price", String.valueOf((int) tag.charAt(0)));
            producer.send(one);
        }
        DefaultMQPushConsumer tags = consumer("T" + topic);
        tags.subscribe(topic, "a || c");
        List<String> found = take(listen(tags), 2);
        Collections.sort(found);
        say(String.join(" ", found));
        DefaultMQPushConsumer sql = consumer("S" + topic);
        sql.subscribe(topic, MessageSelector.bySql("price > 97 AND TAGS IN ('b', 'a')"));
        say(String.join(" ", take(listen(sql), 1)));
        tags.shutdown();
        sql.shutdown();
        producer.shutdown();
    }

    static void transaction() throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("X" + topic);
        producer.setNamesrvAddr(names);
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object what) {
                return (LocalTransactionState) what;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                say("asked for " + text(message));
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        producer.sendMessageInTransaction(message("kept", "a"), LocalTransactionState.COMMIT_MESSAGE);
        producer.sendMessageInTransaction(message("gone", "a"), LocalTransactionState.ROLLBACK_MESSAGE);
        producer.sendMessageInTransaction(message("open", "a"), LocalTransactionState.UNKNOW);
        DefaultMQPushConsumer consumer = consumer("C" + topic);
        consumer.subscribe(topic, "*");
        BlockingQueue<String> got = listen(consumer);
        take(got, 2).forEach(Scenarios::say);
        consumer.shutdown();
        producer.shutdown();
    }

    /** Says what it gets until it is killed. */
    static void member(DefaultMQPushConsumer consumer) throws Exception {
        consumer.subscribe(topic, "*");
        BlockingQueue<String> got = listen(consumer);
        while (true) {
            say(got.take());
        }
    }

    static DefaultMQPushConsumer broadcasting(DefaultMQPushConsumer consumer) {
        // by name: the enumeration is in another package in 5.x
        for (var model : consumer.getMessageModel().getDeclaringClass().getEnumConstants()) {
            if (model.name().equals("BROADCASTING")) {
                consumer.setMessageModel(model);
            }
        }
        // members of one machine would share a file of offsets
        consumer.setInstanceName("pid" + ProcessHandle.current().pid());
        return consumer;
    }

    static void delay() throws Exception {
        DefaultMQProducer producer = producer();
        Message late = message("late", "a");
        late.setDelayTimeLevel(1);
        producer.send(late);
        producer.send(message("early", "a"));
        DefaultMQPushConsumer consumer = consumer("C" + topic);
        consumer.subscribe(topic, "*");
        BlockingQueue<String> got = listen(consumer);
        take(got, 2).forEach(Scenarios::say);
        consumer.shutdown();
        producer.shutdown();
    }
}
