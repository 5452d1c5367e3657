// Runs the commands of tests/conformance/clients/transactional.py, one a line, on partition 0 of topics.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type session struct {
	bootstrap       string
	transactionalID string
	producer        *kgo.Client
}

func main() {
	timeout, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	s := &session{bootstrap: os.Args[1], transactionalID: os.Args[2]}
	s.producer, err = kgo.NewClient(
		kgo.SeedBrokers(s.bootstrap),
		kgo.TransactionalID(s.transactionalID),
		kgo.TransactionTimeout(time.Duration(timeout)*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		panic(err)
	}
	defer s.producer.Close()
	s.execute([]string{"init"})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		s.execute(strings.Fields(commands.Text()))
	}
}

func (s *session) execute(command []string) {
	values, err := s.perform(context.Background(), command)
	switch {
	case err == nil:
		fmt.Println("ok", strings.Join(values, " "))
	case errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch):
		fmt.Println("fenced", err)
	default:
		fmt.Println("refused", err)
	}
}

func (s *session) perform(ctx context.Context, command []string) ([]string, error) {
	switch command[0] {
	case "init":
		_, _, err := s.producer.ProducerID(ctx)
		return nil, err
	case "begin":
		return nil, s.producer.BeginTransaction()
	case "send":
		record := &kgo.Record{Topic: command[1], Value: []byte(command[2])}
		return nil, s.producer.ProduceSync(ctx, record).FirstErr()
	case "transfer":
		return nil, s.transfer(ctx, command[1], command[2], command[3], command[4], kgo.TransactionEndTry(command[5] == "commit"))
	case "commit":
		return nil, s.producer.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return nil, s.producer.EndTransaction(ctx, kgo.TryAbort)
	case "read":
		return s.read(ctx, command[1], command[2], command[3])
	}
	return nil, fmt.Errorf("no command is named %s", command[0])
}

func (s *session) read(ctx context.Context, topic, isolation, end string) ([]string, error) {
	level := kgo.ReadUncommitted()
	if isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(s.bootstrap),
		kgo.FetchIsolationLevel(level),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}),
	)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var values []string
	for !hasEnded(values, end) {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, nil
}

// transfer copies a topic to another one, in a transaction with the group's offset.
func (s *session) transfer(ctx context.Context, group, from, to, end string, try kgo.TransactionEndTry) error {
	transfer, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(s.bootstrap),
		kgo.TransactionalID(s.transactionalID+"-transfer"),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(from),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer transfer.Close()
	var values []string
	for !hasEnded(values, end) {
		fetches := transfer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	if err := transfer.Begin(); err != nil {
		return err
	}
	for _, value := range values {
		if err := transfer.ProduceSync(ctx, &kgo.Record{Topic: to, Value: []byte(value)}).FirstErr(); err != nil {
			return err
		}
	}
	committed, err := transfer.End(ctx, try)
	if err == nil && committed != bool(try) {
		err = errors.New("the transaction ended otherwise")
	}
	return err
}

func hasEnded(values []string, end string) bool {
	return len(values) > 0 && values[len(values)-1] == end
}
