// Queues and exchanges, errors, and the life of a connection.
package main

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func topology(r *run) report {
	channel := r.confirming()
	check(channel.ExchangeDeclare(r.name+".x", "topic", true, false, false, false, nil))
	check(channel.ExchangeDeclare(r.name+".y", "fanout", false, false, false, false, nil))
	declared := declare(channel, r.name, true, nil)
	check(channel.ExchangeBind(r.name+".y", "a.#", r.name+".x", false, nil))
	check(channel.QueueBind(r.name, "", r.name+".y", false, nil))
	for _, key := range []string{"a", "a.b", "b"} {
		sure(channel, r.name+".x", key, key)
	}
	counted := must(channel.QueueDeclarePassive(r.name, true, false, false, false, nil))
	got, _, err := channel.Get(r.name, true)
	check(err)
	purged := must(channel.QueuePurge(r.name, false))
	_, ok, err := channel.Get(r.name, true)
	check(err)
	check(channel.QueueUnbind(r.name, "", r.name+".y", nil))
	deleted := must(channel.QueueDelete(r.name, false, false, false))
	return report{"declared": declared.Messages, "counted": counted.Messages, "got": string(got.Body),
		"left": got.MessageCount, "purged": purged, "empty": !ok, "deleted": deleted}
}

func channelError(r *run) report {
	channel := r.channel()
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	_, err := channel.QueueDeclarePassive(r.name, false, false, false, false, nil)
	reason := <-closed
	queue := must(r.channel().QueueDeclare("", false, false, true, false, nil))
	named := strings.Contains(err.Error(), "no queue '"+r.name+"' in vhost '/'")
	return report{"code": reason.Code, "named": named, "reopened": strings.HasPrefix(queue.Name, "amq.gen-")}
}

func connectionError(r *run) report {
	closed := r.connection.NotifyClose(make(chan *amqp.Error, 1))
	channel := r.channel()
	declare(channel, r.name, false, nil)
	for n := 0; n < 2; n++ {
		channel.Consume(r.name, "same", false, false, false, false, nil)
	}
	return report{"code": (<-closed).Code}
}

func cancelled(r *run) report {
	channel := r.channel()
	declare(channel, r.name, false, nil)
	tags := channel.NotifyCancel(make(chan string, 1))
	must(channel.Consume(r.name, "mine", false, false, false, false, nil))
	must(r.channel().QueueDelete(r.name, false, false, false))
	return report{"cancelled": <-tags == "mine"}
}

func heartbeat(r *run) report {
	closed := r.connection.NotifyClose(make(chan *amqp.Error, 1))
	select {
	case <-closed:
	case <-time.After(3200 * time.Millisecond):
	}
	must(r.channel().QueueDeclare("", false, false, true, false, nil))
	return report{"alive": !r.connection.IsClosed()}
}

func cut(r *run) report {
	closed := r.connection.NotifyClose(make(chan *amqp.Error, 1))
	channel := r.confirming()
	declare(channel, r.name, true, nil)
	sure(channel, "", r.name, "held")
	first, _, err := channel.Get(r.name, false)
	check(err)
	r.ask("cut")
	<-closed
	r.connection = must(amqp.Dial(r.url))
	second := <-consume(r.channel(), r.name, false)
	check(second.Ack(false))
	return report{"bodies": []string{mark(first), mark(second)}}
}

func brokerStop(r *run) report {
	closed := r.connection.NotifyClose(make(chan *amqp.Error, 1))
	r.ask("stop")
	return report{"code": (<-closed).Code}
}
