package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
)

const (
	// maxStores is how many pieces a call stores at the same time.
	maxStores = 8
	// storeWithin is how long it may take to store or to get the data of a piece.
	storeWithin = 20 * time.Second
)

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
		ctx, cancel := context.WithTimeout(k.within, storeWithin)
		defer cancel()
		e.head.Large, e.err = putObject(ctx, k.cluster.js, k.cluster.names, name, data, k.config)
		k.post(e)
	})
	return true
}

// stored takes what became of the data of a piece. f is nil if the piece is done.
func (k *call) stored(f *flight, e event) error {
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
			dropObject(k.cluster.js, k.cluster.names, &Ref{URI: "object:" + pieceID(k.id, number)})
		})
	}
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
