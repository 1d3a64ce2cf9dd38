package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
)

// bytes limits a stream.
func (c *config) bytes() int64 {
	if c.maxBytes == 0 {
		return 1 << 30
	}
	return c.maxBytes
}

// onServers calls f with the number of replicas, and with fewer ones down to least where there are too few servers and none were asked for.
func (c *config) onServers(nc *nats.Conn, least int, f func(replicas int) error) error {
	if c.replicas > 0 {
		return f(c.replicas)
	}
	n := 3
	if nc.ConnectedClusterName() == "" {
		n = 1
	}
	for ; n > least; n-- {
		if err := f(n); !tooFewServers(err) {
			return err
		}
	}
	return f(n)
}

// tooFewServers tells whether there are too few for the replicas.
func tooFewServers(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == 10005 || api.ErrorCode == 10074)
}

// makeStreams makes what is missing, and changes what differs.
func (c *Cluster) makeStreams(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	common := jetstream.StreamConfig{MaxAge: keepResults, Storage: c.config.storage, MaxBytes: c.config.bytes(), MaxMsgSize: -1, // what the server takes
		// A subject has one message, and a second one is refused: that is what makes repeating safe.
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true}
	work, result := common, common
	work.Name, work.Subjects, work.Retention = c.names.workStream(), []string{c.names.subject("work", ">")}, jetstream.WorkQueuePolicy
	result.Name, result.Subjects = c.names.resultStream(), []string{c.names.subject("result", ">")}
	for _, s := range []jetstream.StreamConfig{work, result} {
		if err := c.makeStream(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) makeStream(ctx context.Context, s jetstream.StreamConfig) error {
	stream, err := c.js.Stream(ctx, s.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = c.config.onServers(c.nc, 1, func(replicas int) (err error) {
			s.Replicas = replicas
			stream, err = c.js.CreateStream(ctx, s)
			return err
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = c.js.Stream(ctx, s.Name)
		}
	}
	if err == nil {
		c.keepInfo(stream.CachedInfo())
		return c.changeStream(ctx, stream.CachedInfo().Config)
	}
	return classify(c.nc, "making the stream "+s.Name, err)
}

// changeStream gives a stream what the options ask for.
func (c *Cluster) changeStream(ctx context.Context, have jetstream.StreamConfig) error {
	if c.config.storage == jetstream.FileStorage && have.Storage != jetstream.FileStorage {
		return driver.Errorf(driver.ErrInvalidArgument, "the stream %s has %v storage, and WithFileStorage asks for %v: remove the stream, or leave out the option", have.Name, have.Storage, jetstream.FileStorage)
	}
	want := have
	want.MaxMsgSize, want.MaxAge = -1, keepResults
	if c.config.maxBytes > 0 {
		want.MaxBytes = c.config.maxBytes
	}
	err := c.config.onServers(c.nc, have.Replicas, func(replicas int) error {
		if want.Replicas = replicas; want.Replicas == have.Replicas && want.MaxBytes == have.MaxBytes && want.MaxMsgSize == have.MaxMsgSize && want.MaxAge == have.MaxAge {
			return nil
		}
		stream, err := c.js.UpdateStream(ctx, want)
		if err == nil {
			c.keepInfo(stream.CachedInfo())
		}
		return err
	})
	return classify(c.nc, fmt.Sprintf("changing the stream %s from %d replicas to %d, and from %d bytes to %d", have.Name, have.Replicas, want.Replicas, have.MaxBytes, want.MaxBytes), err)
}

func (c *Cluster) keepInfo(i *jetstream.StreamInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.infos[i.Config.Name] = i
}

// askStreams asks the streams and the consumer of a function how they are. It is an error if a stream has lost what it had: the server
// was started again, and the stream was in its memory.
func (c *Cluster) askStreams(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for _, name := range []string{c.names.workStream(), c.names.resultStream()} {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return classify(c.nc, "asking the stream "+name, err)
		}
		c.mu.Lock()
		before := c.infos[name]
		c.mu.Unlock()
		c.keepInfo(s.CachedInfo())
		if before != nil && s.CachedInfo().State.LastSeq < before.State.LastSeq {
			return fmt.Errorf("the stream %s was lost and made again: %w", name, jetstream.ErrStreamNotFound)
		}
	}
	_, err := c.js.Consumer(ctx, c.names.workStream(), token)
	return classify(c.nc, "asking the consumer "+token, err)
}

// mute is the error of streams that accept and acknowledge nothing.
func (c *Cluster) mute(patience time.Duration, cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := ""
	for _, name := range []string{c.names.workStream(), c.names.resultStream()} {
		if i := c.infos[name]; i != nil {
			text += fmt.Sprintf(" %s with %d replicas", name, i.Config.Replicas)
			if i.Cluster != nil && i.Cluster.Leader != "" {
				text += ", led by " + i.Cluster.Leader
			}
			text += ";"
		}
	}
	return driver.Errorf(ErrDisconnected, "nothing was accepted or acknowledged for %v (WithPatience) by the streams%s last: %w", patience, text, cause)
}
