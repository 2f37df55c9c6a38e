// Scenarios of the AMQP client for Go: each prints one line of JSON, which the tests judge.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

type report map[string]any

// run is what one scenario needs: a connection, the names it may use, and somebody to ask for help.
type run struct {
	url, name, other string
	connection       *amqp.Connection
	input            *bufio.Scanner
}

var scenarios = map[string]func(*run) report{
	"topology": topology, "confirms": confirms, "settle": settle, "returns": returns,
	"prefetch": prefetch, "reply_to": replyTo, "channel_error": channelError,
	"connection_error": connectionError, "cancelled": cancelled, "headers": headers,
	"large": large, "heartbeat": heartbeat, "cut": cut, "broker_stop": brokerStop,
	"transaction": transaction, "deferred": deferred, "context": withContext,
}

func main() {
	r := &run{url: os.Args[2], name: os.Args[3], other: os.Args[3] + ".other"}
	r.input = bufio.NewScanner(os.Stdin)
	config := amqp.Config{}
	if os.Args[1] == "heartbeat" {
		config.Heartbeat = time.Second
	}
	r.connection = must(amqp.DialConfig(r.url, config))
	result := scenarios[os.Args[1]](r)
	r.connection.Close()
	fmt.Println(string(must(json.Marshal(result))))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%+v\n", err)
		panic(err)
	}
}

func (r *run) ask(help string) {
	fmt.Println(help)
	r.input.Scan()
}

func (r *run) channel() *amqp.Channel { return must(r.connection.Channel()) }

func (r *run) confirming() *amqp.Channel {
	channel := r.channel()
	check(channel.Confirm(false))
	return channel
}

func declare(channel *amqp.Channel, queue string, durable bool, arguments amqp.Table) amqp.Queue {
	return must(channel.QueueDeclare(queue, durable, false, false, false, arguments))
}

func count(channel *amqp.Channel, queue string) int {
	return must(channel.QueueDeclarePassive(queue, false, false, false, false, nil)).Messages
}

func publish(channel *amqp.Channel, exchange, key, body string) {
	check(channel.Publish(exchange, key, false, false, amqp.Publishing{Body: []byte(body)}))
}

// sure publishes and waits for the confirm.
func sure(channel *amqp.Channel, exchange, key, body string) bool {
	confirm := must(channel.PublishWithDeferredConfirm(
		exchange, key, false, false, amqp.Publishing{Body: []byte(body)}))
	return confirm.Wait()
}

func consume(channel *amqp.Channel, queue string, noAck bool) <-chan amqp.Delivery {
	return must(channel.Consume(queue, "", noAck, false, false, false, nil))
}

func mark(delivery amqp.Delivery) string {
	if delivery.Redelivered {
		return string(delivery.Body) + "*"
	}
	return string(delivery.Body)
}
