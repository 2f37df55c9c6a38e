// What a Go client does with a RocketMQ server: go run . SCENARIO NAMESERVER TOPIC
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var names, topic string

const patience = 60 * time.Second

func say(words ...any) { fmt.Println(append([]any{">"}, words...)...) }

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func newProducer(more ...producer.Option) rocketmq.Producer {
	options := append([]producer.Option{
		producer.WithNameServer([]string{names}),
		producer.WithGroupName("P" + topic),
		producer.WithRetry(2),
	}, more...)
	made, err := rocketmq.NewProducer(options...)
	must(err)
	must(made.Start())
	return made
}

// Collector keeps bodies in the order in which they came.
type Collector struct {
	lock   sync.Mutex
	bodies []string
}

func (c *Collector) add(messages []*primitive.MessageExt) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, message := range messages {
		c.bodies = append(c.bodies, string(message.Body))
	}
}

func (c *Collector) wait(count int, sorted bool) string {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		c.lock.Lock()
		if len(c.bodies) >= count {
			found := append([]string{}, c.bodies...)
			c.lock.Unlock()
			if sorted {
				sort.Strings(found)
			}
			return strings.Join(found, " ")
		}
		c.lock.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
	return "only " + strings.Join(c.bodies, " ")
}

func consume(from string, tags string, handle func([]*primitive.MessageExt) consumer.ConsumeResult, more ...consumer.Option) rocketmq.PushConsumer {
	options := append([]consumer.Option{
		consumer.WithNameServer([]string{names}),
		consumer.WithGroupName("C" + topic),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
	made, err := rocketmq.NewPushConsumer(options...)
	must(err)
	must(made.Subscribe(from, consumer.MessageSelector{Type: consumer.TAG, Expression: tags},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			return handle(messages), nil
		}))
	must(made.Start())
	return made
}

func collect(found *Collector) func([]*primitive.MessageExt) consumer.ConsumeResult {
	return func(messages []*primitive.MessageExt) consumer.ConsumeResult {
		found.add(messages)
		return consumer.ConsumeSuccess
	}
}

func send(p rocketmq.Producer, body string, tag string) {
	message := primitive.NewMessage(topic, []byte(body))
	if tag != "" {
		message.WithTag(tag)
	}
	_, err := p.SendSync(context.Background(), message)
	must(err)
}

func everyday() {
	p := newProducer()
	result, err := p.SendSync(context.Background(), primitive.NewMessage(topic, []byte("first")))
	must(err)
	if result.Status == primitive.SendOK {
		say("SEND_OK")
	}
	batch := []*primitive.Message{}
	for number := 0; number < 3; number++ {
		batch = append(batch, primitive.NewMessage(topic, []byte(fmt.Sprintf("batch%d", number))))
	}
	_, err = p.SendSync(context.Background(), batch...)
	must(err)
	must(p.SendOneWay(context.Background(), primitive.NewMessage(topic, []byte("oneway"))))
	var found Collector
	c := consume(topic, "*", collect(&found))
	say(found.wait(5, true))
	must(c.Shutdown())
	must(p.Shutdown())
}

func selectors() {
	p := newProducer()
	for _, tag := range []string{"a", "b", "c"} {
		send(p, "tag-"+tag, tag)
	}
	var found Collector
	c := consume(topic, "a || c", collect(&found))
	say(found.wait(2, true))
	must(c.Shutdown())
	must(p.Shutdown())
}

func orderly() {
	p := newProducer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for number := 0; number < 10; number++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("o%d", number)))
		message.WithShardingKey("one")
		_, err := p.SendSync(context.Background(), message)
		must(err)
	}
	var found Collector
	c := consume(topic, "*", collect(&found), consumer.WithConsumerOrder(true))
	say(found.wait(10, false))
	must(c.Shutdown())
	must(p.Shutdown())
}

func retry() {
	p := newProducer()
	var times Collector
	c := consume(topic, "*", func(messages []*primitive.MessageExt) consumer.ConsumeResult {
		for _, message := range messages {
			times.lock.Lock()
			times.bodies = append(times.bodies, fmt.Sprint(message.ReconsumeTimes))
			times.lock.Unlock()
		}
		return consumer.ConsumeRetryLater
	}, consumer.WithMaxReconsumeTimes(1))
	send(p, "bad", "")
	say(times.wait(2, false))
	var buried Collector
	dead := consume("%DLQ%C"+topic, "*", collect(&buried),
		consumer.WithGroupName("D"+topic), consumer.WithInstance("dead"))
	say(buried.wait(1, false))
	must(dead.Shutdown())
	must(c.Shutdown())
	must(p.Shutdown())
}

// member says what it gets until it is killed.
func member(model consumer.MessageModel) {
	consume(topic, "*", func(messages []*primitive.MessageExt) consumer.ConsumeResult {
		for _, message := range messages {
			say(string(message.Body))
		}
		return consumer.ConsumeSuccess
	}, consumer.WithConsumerModel(model))
	select {}
}

func main() {
	rlog.SetLogLevel("error")
	names, topic = os.Args[2], os.Args[3]
	switch os.Args[1] {
	case "everyday":
		everyday()
	case "selectors":
		selectors()
	case "orderly":
		orderly()
	case "retry":
		retry()
	case "member":
		member(consumer.Clustering)
	case "broadcasting":
		member(consumer.BroadCasting)
	}
	os.Exit(0)
}
