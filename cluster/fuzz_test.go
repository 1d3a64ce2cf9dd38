package cluster

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// nowhere are devices that run nothing.
type nowhere struct{}

func (nowhere) state() (int, func(string) bool, []Device) {
	return 1, func(string) bool { return true }, nil
}
func (nowhere) idle(time.Time) {}
func (nowhere) memory(bytes []int64) (buffers, func(), error) {
	return buffers{}, nil, driver.Errorf(driver.ErrOutOfMemory, "none")
}
func (nowhere) run(context.Context, string, []byte, buffers) ([]byte, pool.Report, error) {
	return nil, pool.Report{}, driver.Errorf(driver.ErrInvalidArgument, "none")
}

// hostWithout is a host without a connection: what it publishes goes nowhere.
func hostWithout() *host {
	c, _ := configured(atOpen, nil, nil)
	h := &host{config: c, nc: &nats.Conn{}, names: defaultName, self: Host{ID: "host.x", Name: "host", Slots: 1, Functions: []string{"f/v1"}}, functions: []string{"f/v1"},
		devices: nowhere{}, base: context.Background(), held: map[*held]bool{}, answers: map[string]*answer{}, cancelled: map[string]time.Time{}}
	h.source = &source{reads: make(chan struct{}, 1)}
	h.room.max = 1 << 20
	return h
}

var heads0 = []string{"", "0 {}\n", "0 null\n", "0 {\"d\":1000000000,\"f\":\"f/v1\",\"p\":\"a.1.2\"}\ndata", "0 {\"d\":-1}\n", "9 {\"d\":9223372036854775807}\n",
	"0 {\"d\":1,\"r\":[{\"u\":\"object:x\",\"o\":70368744177664,\"n\":1}]}\n", "0 {\"d\":1,\"l\":{\"u\":\"object:x\",\"n\":-1}}\n", "-1 {\"e\":{}}\n", "x"}

// FuzzPiece has pieces of the queue, and of somebody who sends them to this host.
func FuzzPiece(f *testing.F) {
	for _, text := range heads0 {
		f.Add("purecuda.v1.work.f=v1.a.1.2", "$JS.ACK.purecuda_v1_work.f=v1.1.2.3.4.5", []byte(text))
		f.Add("purecuda.v1.work.f=v1.>", "", []byte(text))
	}
	f.Fuzz(func(t *testing.T, subject, reply string, data []byte) {
		h := hostWithout()
		h.self.Busy = 1 // what comes waits
		p := &puller{host: h, function: "f/v1", token: "f=v1"}
		p.receive(&nats.Msg{Subject: subject, Reply: reply, Data: data, Sub: &nats.Subscription{}})
		h.sent(&nats.Msg{Subject: "purecuda.v1.host.host.x", Data: data})
		for w := range h.held {
			assert.True(t, isPiece(w.piece), w.piece)
			assert.NotContains(t, w.piece, " ")
			assert.Equal(t, 2, strings.Count(w.piece, "."))
			assert.Positive(t, w.head.Deadline)
			assert.Positive(t, w.head.Deadline+time.Hour)
		}
	})
}

// FuzzHead has the head of a piece that runs: references, data elsewhere, a deadline.
func FuzzHead(f *testing.F) {
	for _, text := range heads0 {
		f.Add([]byte(text))
	}
	folder := f.TempDir()
	require.NoError(f, os.WriteFile(folder+"/file", make([]byte, 100), 0o600))
	root, err := os.OpenRoot(folder)
	require.NoError(f, err)
	f.Cleanup(func() { assert.NoError(f, root.Close()) })
	f.Fuzz(func(t *testing.T, data []byte) {
		h := hostWithout()
		h.source.roots = map[string]*os.Root{"set": root}
		w := &held{function: "f/v1", token: "f=v1", piece: "a.1.2"}
		var err error
		if w.head, _, w.data, err = h.heads.read(&nats.Msg{Data: data}); err != nil || w.head.Large != nil {
			if w.head.Large != nil { // it is asked for only where it can be
				_, err := getObject(context.Background(), nil, defaultName, &Ref{URI: w.head.Large.URI, Offset: w.head.Large.Offset, Length: -1}, maxData)
				assert.Error(t, err)
			}
			return
		}
		_, _, err = h.call(context.Background(), w)
		assert.Error(t, err)
		for i := range w.head.Refs {
			r := &w.head.Refs[i]
			if r.check() == nil && r.Length <= 1000 && !strings.HasPrefix(r.URI, "object:") {
				_ = h.source.fetch(context.Background(), r, make([]byte, r.Length))
			}
		}
	})
}

// FuzzResult has results and notes of hosts.
func FuzzResult(f *testing.F) {
	for _, text := range heads0 {
		for _, subject := range []string{"purecuda.v1.result.f=v1.host.a.1.0.ok", "purecuda.v1.begin.f=v1.host.a.1.0", "purecuda.v1.result.f=v1", "purecuda.v1.result.....", ""} {
			f.Add(subject, []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		config, err := configured(atOpen, nil, []Option{WithRetry(1)})
		require.NoError(t, err)
		c := &Cluster{nc: &nats.Conn{}, names: defaultName, config: config, id: "a", hosts: map[string]*seenHost{}, calls: map[string]*call{}}
		taken := 0
		k := &call{config: config, cluster: c, ctx: context.Background(), within: context.Background(), function: "f/v1", token: "f=v1", id: "a.1", n: 1, left: 1, done: make([]outcome, 1),
			signal: make(chan struct{}, 1), flights: map[int]*flight{}, take: func(int, []byte) error { taken++; return nil }}
		c.calls["a.1"] = k
		f := &flight{checked: -1}
		k.flights[0] = f
		for range 2 {
			c.result(&nats.Msg{Subject: subject, Data: data})
			c.begun(&nats.Msg{Subject: subject, Data: data})
			for _, e := range k.events {
				_, _, bad := checkedHead(e.head)
				assert.False(t, bad, "%+v", e.head)
				if e.head.Large == nil {
					_ = k.handle(context.Background(), e) // an error ends the call
				}
			}
			k.events = nil
		}
		assert.LessOrEqual(t, taken, 1)
		_, _ = k.report(time.Second, nil)
	})
}

func checkedHead(h resultHead) (string, int, bool) {
	return h.Host, h.Device, h.Ran < 0 || h.Device < driver.NoDevice || checkToken("", h.Host) != nil
}

// FuzzHealth has what hosts tell about themselves.
func FuzzHealth(f *testing.F) {
	for _, text := range []string{"", "null", "{}", `{"Slots":-1}`, `{"Slots":1e300}`, `{"Slots":65536,"Functions":["f/v1"],"Devices":[{"Err":"x"}]}`, `{"Gone":true}`} {
		f.Add("purecuda.v1.health.host.x", []byte(text))
		f.Add("purecuda.v1.health.host", []byte(text))
	}
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		c := &Cluster{nc: &nats.Conn{}, names: defaultName, hosts: map[string]*seenHost{}, calls: map[string]*call{}}
		c.health(&nats.Msg{Subject: subject, Data: data})
		for id, h := range c.hosts {
			assert.Equal(t, subject, "purecuda.v1.health."+id)
			assert.Equal(t, h.Name, hostOf(id))
			assert.GreaterOrEqual(t, h.Slots, 0)
			assert.LessOrEqual(t, h.Slots, maxSlots)
		}
	})
}

// FuzzCancel has the ends of calls.
func FuzzCancel(f *testing.F) {
	for _, text := range []string{"", "a.1", "a.1.2", ".", "a.-1", strings.Repeat("a", 300) + ".1"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := hostWithout()
		h.cancelCall(&nats.Msg{Data: data})
		for call := range h.cancelled {
			assert.True(t, isCall(call))
			assert.LessOrEqual(t, len(call), 200)
		}
	})
}

// FuzzRefusal has what a server says about a publication, and FuzzTold what a host says about an error.
func FuzzRefusal(f *testing.F) {
	for _, text := range []string{"", "{}", `{"stream":"x","seq":1}`, `{"error":{"code":400,"err_code":10077,"description":"per subject"}}`, `{"error":null}`, "["} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := refusal(&nats.Msg{Data: data}); err != nil {
			assert.NotEmpty(t, err.Error())
			_, _ = alreadyThere(err), streamLost(err)
			assert.Error(t, classify(&nats.Conn{}, "publishing", err))
		}
		assert.NotEmpty(t, isolate.DecodeError(data, 0).Error()+" ")
	})
}
