package cluster

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

const (
	// maxValue is how large data are that go with a message.
	maxValue = 64 << 10
	// maxData is how large the data of a piece and its result may be, as in package isolate.
	maxData = 16 << 20
	// maxHead limits the references of a piece.
	maxHead = 32 << 10
	// maxMessage is what the streams take.
	maxMessage = maxValue + maxHead + 1<<10
)

// headKey is the header that all messages have, and ranKey that of results.
const (
	headKey = "Purecuda"
	ranKey  = "Purecuda-Ran"
)

// pieceHead is what a host gets besides the data of a piece.
type pieceHead struct {
	Deadline time.Duration `json:"d"`
	Function string        `json:"f,omitempty"` // of a piece for one host, and
	Piece    string        `json:"p,omitempty"` // its CALLER.CALL.PIECE
	Try      int           `json:"t,omitempty"`
	Refs     []Ref         `json:"r,omitempty"`
	Large    *Ref          `json:"l,omitempty"` // the data, where they do not go with the message
}

// resultHead is what a caller gets besides the result.
type resultHead struct {
	Host   string          `json:"h"` // ID
	Name   string          `json:"n"`
	Try    int             `json:"y,omitempty"`
	Device int             `json:"d"`
	Where  pool.Where      `json:"w,omitempty"`
	Reason pool.Reason     `json:"s,omitempty"`
	Ran    time.Duration   `json:"-"`           // in a header of its own: the rest is the same for most pieces
	Error  json.RawMessage `json:"e,omitempty"` // of isolate.EncodeError
	Large  *Ref            `json:"l,omitempty"`
}

// message makes a message with a head.
func message(subject string, head any, data []byte) (*nats.Msg, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHead {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "the references of a piece take %d bytes: want at most %d", len(text), maxHead)
	}
	return &nats.Msg{Subject: subject, Header: nats.Header{headKey: {string(text)}}, Data: data}, nil
}

// heads decodes the heads of messages, and remembers them: those of a call are mostly the same.
type heads[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

func (h *heads[T]) read(m *nats.Msg) (head T, err error) {
	values := m.Header[headKey]
	if len(values) != 1 {
		return head, driver.Errorf(driver.ErrInvalidArgument, "a message on %s that is not of this package", m.Subject)
	}
	text := values[0]
	h.mu.Lock()
	defer h.mu.Unlock()
	head, ok := h.known[text]
	if ok {
		return head, nil
	}
	if err = json.Unmarshal([]byte(text), &head); err == nil && len(text) < 256 {
		if h.known == nil || len(h.known) > 1000 {
			h.known = map[string]T{}
		}
		h.known[text] = head
	}
	return head, err
}

// readResult decodes the head of a result.
func (c *Cluster) readResult(m *nats.Msg) (resultHead, error) {
	head, err := c.heads.read(m)
	if ran := m.Header[ranKey]; err == nil && len(ran) == 1 {
		var n int64
		n, err = strconv.ParseInt(ran[0], 10, 64)
		head.Ran = time.Duration(n)
	}
	return head, err
}
