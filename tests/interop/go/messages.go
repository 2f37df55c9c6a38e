// Publishing, consuming and settling messages.
package main

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func confirms(r *run) report {
	channel := r.confirming()
	declare(channel, r.name, true, nil)
	acks := channel.NotifyPublish(make(chan amqp.Confirmation, 100))
	for n := 0; n < 100; n++ {
		check(channel.Publish("", r.name, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent}))
	}
	for n := 0; n < 100; n++ {
		if confirmation := <-acks; !confirmation.Ack {
			panic("nack")
		}
	}
	stored := count(channel, r.name)

	second := r.confirming()
	declare(second, r.other, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	outcomes := []string{}
	for n := 0; n < 2; n++ {
		outcomes = append(outcomes, map[bool]string{true: "ack", false: "nack"}[sure(second, "", r.other, "x")])
	}
	return report{"stored": stored, "outcomes": outcomes}
}

func deferred(r *run) report {
	channel := r.confirming()
	declare(channel, r.name, false, nil)
	acked, tags := true, []uint64{}
	pending := []*amqp.DeferredConfirmation{}
	for n := 0; n < 3; n++ {
		pending = append(pending, must(channel.PublishWithDeferredConfirmWithContext(
			context.Background(), "", r.name, false, false, amqp.Publishing{})))
	}
	for _, one := range pending {
		limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		acked = must(one.WaitContext(limited)) && acked
		tags = append(tags, one.DeliveryTag)
		cancel()
	}
	return report{"acked": acked, "tags": tags}
}

func settle(r *run) report {
	channel := r.channel()
	declare(channel, r.other, false, nil)
	declare(channel, r.name, false, amqp.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": r.other})
	for _, body := range []string{"a", "b", "c"} {
		publish(channel, "", r.name, body)
	}
	check(channel.Qos(1, 0, false))
	order := []string{}
	deliveries := consume(channel, r.name, false)
	for len(order) < 4 {
		delivery := <-deliveries
		order = append(order, mark(delivery))
		switch mark(delivery) {
		case "b":
			check(delivery.Nack(false, true))
		case "c":
			check(delivery.Reject(false))
		default:
			check(delivery.Ack(false))
		}
	}
	dead := <-consume(channel, r.other, true)
	death := dead.Headers["x-death"].([]interface{})[0].(amqp.Table)
	return report{"order": order, "dead": mark(dead), "reason": death["reason"],
		"from": death["queue"] == r.name}
}

func returns(r *run) report {
	channel := r.confirming()
	returned := channel.NotifyReturn(make(chan amqp.Return))
	acks := channel.NotifyPublish(make(chan amqp.Confirmation))
	check(channel.Publish("", r.name, true, false, amqp.Publishing{Body: []byte("lost")}))
	events := []string{}
	for len(events) < 2 {
		select {
		case back := <-returned:
			events = append(events, strings.Join([]string{"312", back.ReplyText, string(back.Body)}, " "))
			if back.ReplyCode != 312 {
				panic(back.ReplyCode)
			}
		case <-acks:
			events = append(events, "ack")
		}
	}
	return report{"events": events}
}

func prefetch(r *run) report {
	channel := r.confirming()
	declare(channel, r.name, false, nil)
	for n := 0; n < 5; n++ {
		sure(channel, "", r.name, "x")
	}
	check(channel.Qos(2, 0, false))
	deliveries := consume(channel, r.name, false)
	<-deliveries
	second := <-deliveries
	left := count(channel, r.name)
	held := 2 + len(deliveries)
	check(second.Ack(true))
	<-deliveries
	<-deliveries
	return report{"held": held, "left": left, "then": 4 + len(deliveries)}
}

func replyTo(r *run) report {
	const direct = "amq.rabbitmq.reply-to"
	client, server := r.channel(), r.channel()
	declare(server, r.name, false, nil)
	requests := consume(server, r.name, true)
	replies := consume(client, direct, true)
	check(client.Publish("", r.name, false, false, amqp.Publishing{
		Body: []byte("shout"), ReplyTo: direct, CorrelationId: "42"}))
	request := <-requests
	check(server.Publish("", request.ReplyTo, false, false, amqp.Publishing{
		Body: bytes.ToUpper(request.Body), CorrelationId: request.CorrelationId}))
	reply := <-replies
	return report{"reply": string(reply.Body), "correlation": reply.CorrelationId}
}

func headers(r *run) report {
	channel := r.channel()
	declare(channel, r.name, false, nil)
	sent := amqp.Table{
		"nil": nil, "bool": true, "byte": byte(200), "int8": int8(-7), "int16": int16(-300),
		"int32": int32(-70000), "int64": int64(1) << 40, "float32": float32(1.5), "float64": 2.25,
		"decimal": amqp.Decimal{Scale: 2, Value: 314}, "string": "grün", "bytes": []byte{0, 1, 255},
		"time": time.Unix(1700000000, 0), "table": amqp.Table{"deep": "x"},
		"array": []interface{}{int32(1), "two", amqp.Table{"three": int64(3)}},
	}
	check(channel.Publish("", r.name, false, false, amqp.Publishing{Headers: sent}))
	got, ok, err := channel.Get(r.name, true)
	check(err)
	return report{"same": ok && reflect.DeepEqual(got.Headers, sent)}
}

func large(r *run) report {
	channel := r.channel()
	declare(channel, r.name, false, nil)
	body := strings.Repeat("abcdefg", 150_001)
	publish(channel, "", r.name, body)
	got, _, err := channel.Get(r.name, true)
	check(err)
	return report{"same": string(got.Body) == body}
}

func transaction(r *run) report {
	channel, observer := r.channel(), r.channel()
	declare(channel, r.name, false, nil)
	check(channel.Tx())
	publish(channel, "", r.name, "undone")
	check(channel.TxRollback())
	publish(channel, "", r.name, "done")
	before := count(observer, r.name)
	check(channel.TxCommit())
	after := []string{}
	for {
		got, ok, err := observer.Get(r.name, true)
		check(err)
		if !ok {
			return report{"before": before, "after": after}
		}
		after = append(after, string(got.Body))
	}
}

func withContext(r *run) report {
	channel := r.channel()
	declare(channel, r.name, false, nil)
	publish(channel, "", r.name, "one")
	limited, cancel := context.WithCancel(context.Background())
	deliveries := must(channel.ConsumeWithContext(limited, r.name, "", true, false, false, false, nil))
	seen := []string{mark(<-deliveries)}
	cancel()
	_, open := <-deliveries
	return report{"seen": seen, "cancelled": !open}
}
