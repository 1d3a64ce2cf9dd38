package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool/isolate"
)

const (
	// maxStores is how many pieces a call stores at the same time.
	maxStores = 8
)

// storeWithin is how long it may take to store or to get so many bytes.
func storeWithin(bytes int64) time.Duration {
	return 4*answerWithin + moveWithin(bytes)
}

// moveWithin is how long so many bytes are on their way on a slow network.
func moveWithin(bytes int64) time.Duration { return time.Duration(max(bytes, 0)>>22) * time.Second }

// dataLost is the kind of the error of a host, or of a caller, that cannot get what the other side has stored. It is no try: the caller
// stores the data again, or has the piece done again.
const dataLost driver.Kind = "DataLost"

// inline is how large data are that go with a message: what the server takes, less the head. Larger ones go through the object store.
func inline(nc *nats.Conn) int {
	return max(int(min(nc.MaxPayload(), maxPayload))-maxHead-1<<10, 0)
}

// store begins to put data that are too large for a message into the object store, and tells whether it has.
func (k *call) store(f *flight) bool {
	if f.head.Large != nil || len(f.data) <= inline(k.cluster.nc) {
		return false
	}
	f.storing = true
	k.storing++
	name, data, e := pieceID(k.id, f.number), f.data, event{kind: storedEvent, number: f.number}
	k.work.Go(func() {
		ctx, cancel := context.WithTimeout(k.within, storeWithin(int64(len(data))))
		defer cancel()
		e.head.Large, e.err = putObject(ctx, k.cluster.js, k.cluster.names, name, data, k.config)
		k.post(e)
	})
	return true
}

// isStored takes what became of the data of a piece. f is nil if the piece is done.
func (k *call) isStored(f *flight, e event) error {
	k.storing--
	if f == nil {
		k.drop(e.number, true)
		return nil
	}
	f.storing = false
	if e.err == nil {
		f.head.Large = e.head.Large
		return k.send(f)
	}
	err := classify(k.cluster.nc, "storing the data of a piece", e.err)
	if is(err, ErrPermission, driver.ErrUnsupported) || time.Since(k.accepted) > k.patience && k.cluster.nc.IsConnected() {
		return k.failure(f.of(), err)
	}
	k.soon(f, true)
	return nil
}

// storeAgain sends a piece again whose data the server has lost. It ends with the patience of the call.
func (k *call) storeAgain(f *flight) bool {
	if time.Since(k.accepted) > k.patience {
		return false
	}
	f.head.Large = nil
	f.head.Try++ // another failure of the piece is news
	k.soon(f, true)
	return true
}

// drop removes the data of a piece from the object store.
func (k *call) drop(number int, stored bool) {
	if stored {
		k.work.Go(func() {
			k.cluster.drop(&Ref{URI: "object:" + pieceID(k.id, number)})
		})
	}
}

// resultObject is the name of a result in the object store. Each host has its own, so that none changes what the caller reads.
func resultObject(piece, host string) string { return piece + "." + host }

// get gets results from the object store, as many at the same time as are stored.
func (k *call) get(ctx context.Context) {
	for len(k.stored) > 0 && k.getting < maxStores {
		e := k.stored[0]
		k.stored = k.stored[1:]
		f := k.flights[e.number]
		if f == nil || f.held != nil {
			k.cluster.dropLater(e.head.Large)
			continue
		}
		k.getting++
		e.kind = gotEvent
		ref, most := e.head.Large, max(f.head.Result, maxData)
		k.work.Go(func() { // not on the goroutine of the call: it may take long
			c := k.cluster
			if e.data, e.err = getObject(ctx, c.js, c.names, ref, most); e.err == nil || k.within.Err() != nil {
				c.drop(ref)
			}
			k.post(e)
		})
	}
}

// got takes a result that was in the object store. f is nil if the piece is done.
func (k *call) got(ctx context.Context, f *flight, e event) error {
	k.getting--
	defer k.get(ctx)
	if f == nil || !f.mayAnswer(e.head) {
		return nil
	}
	if e.head.Large = nil; e.err != nil {
		e.head.Error, e.head.Try, e.data = isolate.EncodeError(driver.Errorf(dataLost, "getting the result: %w", e.err)), f.head.Try, nil
	}
	return k.answered(ctx, f, e)
}

// dropRest removes the results that came when the call ended.
func (k *call) dropRest() {
	k.mu.Lock()
	rest := append(k.stored, k.events...)
	k.mu.Unlock()
	for _, e := range rest {
		if e.kind == resultEvent {
			k.cluster.dropLater(e.head.Large)
		}
	}
}

// drop removes an object. A server that does not answer in time is asked again in the background.
func (c *Cluster) drop(ref *Ref) {
	if dropObject(c.js, c.names, ref) {
		c.dropLater(ref)
	}
}

// maxDrops is how many objects wait to be removed. More are removed by their age.
const maxDrops = 1024

// dropLater removes an object in the background: a result that nobody takes, or what stayed on a server that was slow. nil is none.
func (c *Cluster) dropLater(ref *Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref == nil || c.closed || len(c.drops) >= maxDrops {
		return
	}
	if c.drops = append(c.drops, ref); len(c.drops) > 1 {
		return
	}
	c.work.Go(func() {
		for ref != nil {
			late := c.nc.IsConnected() && dropObject(c.js, c.names, ref) // without a connection their age removes them
			c.mu.Lock()
			switch c.drops = c.drops[1:]; {
			case late && c.closed:
				c.drops = nil
			case late:
				c.drops = append(c.drops, ref)
			}
			ref = nil
			if len(c.drops) > 0 {
				ref = c.drops[0]
			}
			c.mu.Unlock()
		}
	})
}

// dataKept tells whether the object store has the data of a piece still. If it does not tell, they are stored again when a host
// misses them.
func (c *Cluster) dataKept(ctx context.Context, name string) bool {
	store, err := c.js.ObjectStore(ctx, c.names.bucket())
	if err == nil {
		_, err = store.GetInfo(ctx, name)
	}
	return !errors.Is(err, jetstream.ErrObjectNotFound) && !errors.Is(err, jetstream.ErrBucketNotFound)
}
